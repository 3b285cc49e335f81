"""The examples of the OpenAPI document: they obey it, they are everywhere, and a service answers each of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest

from service.cli import synthetic
from service.settings.settings import Settings
from tests.service.local import Local, serving, unconnected
from tests.service.waiting import eventually

FIRST, LAST = (
    [
        "post_ratings",
        "post_items",
        "post_users",
        "put_scenario",
        "make_key",
        "make_webhook",
        "retrain",
        "put_experiment",
        "make_lists",
    ],
    [
        "cancel_job",
        "delete_rating",
        "delete_event",
        "delete_item",
        "delete_user",
        "delete_scenario",
        "delete_experiment",
        "revoke_key",
        "remove_webhook",
        "end_model",
        "merge_user",
        "forget_user",
    ],
)
ADMIN_KEY = "key-of-the-admins"  # else no key can be made


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return unconnected(Settings(data=tmp_path_factory.mktemp("examples"))).openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def obeys(document: dict[str, Any], schema: dict[str, Any], value: object) -> None:
    jsonschema.validate(value, schema | {"components": document["components"]}, jsonschema.Draft202012Validator)


def test_every_schema_has_an_example_that_obeys_it(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        assert schema["examples"], name
        for example in schema["examples"]:
            obeys(document, schema, example)


def test_every_parameter_has_an_example_that_obeys_it(document: dict[str, Any]) -> None:
    for _, _, operation in operations(document):
        for parameter in operation.get("parameters", []):
            schema = parameter["schema"]
            value = parameter["example"] if parameter["required"] else schema["examples"][0]
            obeys(document, schema, value)


def test_every_body_and_every_answer_has_an_example_that_obeys_its_schema(document: dict[str, Any]) -> None:
    for _, path, operation in operations(document):
        for body in operation.get("requestBody", {}).get("content", {}).values():
            assert body["examples"], path
            for example in body["examples"].values():
                obeys(document, body["schema"], example["value"])
        for status, answer in operation["responses"].items():
            for content in answer["content"].values():
                obeys(document, content.get("schema", {"type": "string"}), content["example"])
                if status >= "300":
                    assert content["example"]["status"] == int(status)


def elements(value: Any) -> list[dict[str, Any]]:
    """The elements of the example of a body: an object, an array, or lines."""
    if isinstance(value, str):
        return [json.loads(line) for line in value.splitlines()]
    return value if isinstance(value, list) else [value]


def test_no_example_is_an_extreme(document: dict[str, Any]) -> None:
    for _, _, operation in operations(document):
        for body in operation.get("requestBody", {}).get("content", {}).values():
            for example in body["examples"].values():
                for rating in elements(example["value"]):
                    assert 1 <= rating.get("rating", 1) <= 5


class Tried:
    """Sends the examples of one operation after the other, with the ids of jobs and versions that there are."""

    def __init__(self, service: Local) -> None:
        self.service, self.known = service, dict[str, str]()

    def path(self, path: str, operation: dict[str, Any]) -> str:
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                of_path = {"/admin/exports/{job}": "lists", "/admin/models/{name}": "live"}
                name = of_path.get(path, parameter["name"])
                value = self.known.get(name, parameter["example"])
                path = path.replace("{" + parameter["name"] + "}", quote(value, safe=""))
        return path

    def send(self, method: str, path: str, **options: Any) -> None:
        answer = self.service.request(method, path, **options)
        if path == "/admin/keys" and method == "POST":
            self.known["key"] = answer.json()["id"]
        assert answer.is_success, f"{method} {path} {options}: {answer.text}"
        if path == "/admin/webhooks" and method == "POST":
            self.known["webhook"] = answer.json()["id"]
        if path == f"/admin/models/{self.known.get('live')}":  # comes back for the next example
            self.service.request("POST", f"/admin/models/{self.known['version']}/activate")
            eventually(lambda: self.known["live"] in self.service.runtime.hotswap.served())
        if path == "/admin/lists":
            self.known["lists"] = self.service.ended_job(answer.json()["id"])["id"]
        if path == "/admin/retrain":
            job = self.service.ended_job(answer.json()["id"])
            assert (job["state"], job["promoted"]) == ("succeeded", True), job
            self.known |= {"job": job["id"], "version": job["version"], "live": job["name"]}

    def every_example(self, method: str, path: str, operation: dict[str, Any]) -> None:
        path = self.path(path, operation)
        if "requestBody" in operation:
            for kind, body in operation["requestBody"]["content"].items():
                for example in body["examples"].values():
                    value = example["value"]
                    content = value if isinstance(value, str) else json.dumps(value)
                    content = content.replace("https://example.com/", "https://8.8.8.8/")  # needs no resolver
                    self.send(method, path, content=content, headers={"Content-Type": kind})
            return
        self.send(method, path)
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "query":
                value = parameter["schema"]["examples"][0]
                self.send(method, path, params=value if isinstance(value, dict) else {parameter["name"]: value})


def test_a_service_answers_every_example(tmp_path: Path, document: dict[str, Any]) -> None:
    drawn = synthetic.planted(0, 60, 60)
    triples = [
        (drawn.viewer_id(viewer), drawn.item_id(item), float(value))
        for viewer, item, value in zip(drawn.viewers, drawn.items, drawn.ratings, strict=True)
    ]
    order = {name: place - len(FIRST) for place, name in enumerate(FIRST)} | dict.fromkeys(LAST, 1)
    with serving(tmp_path / "data", backend="host", admin_key=ADMIN_KEY) as service:
        service.headers["X-API-Key"] = ADMIN_KEY
        for start in range(0, len(triples), 1000):
            service.rate(*triples[start : start + 1000])
        tried = Tried(service)
        for one in sorted(operations(document), key=lambda one: order.get(one[2]["operationId"], 0)):
            tried.every_example(*one)


def test_the_page_and_its_scripts_come_from_the_service(tmp_path: Path) -> None:
    with serving(tmp_path / "data", api_key="key-of-every-client") as service:
        page = service.get("/docs")
        assert page.status_code == 200
        assert "http://" not in page.text
        assert "https://" not in page.text
        for name, kind in (("swagger-ui-bundle.js", "javascript"), ("swagger-ui.css", "css"), ("favicon.png", "png")):
            assert f'"docs/{name}"' in page.text
            answer = service.get(f"/docs/{name}")
            assert answer.status_code == 200
            assert kind in answer.headers["content-type"]
        assert service.get("/docs/other.js").status_code == 404
