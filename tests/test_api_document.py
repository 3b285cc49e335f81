"""Every example of the pages about the API, run in their order against a real service on the synthetic catalog.

An answer in a page has all names of the real one, or some of them and `"…": "…"`.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from service.__main__ import run
from service.cli import synthetic
from tests.service.process import Service

DOCS = Path(__file__).parents[1] / "docs"
DOCUMENTS = [DOCS / f"{name}.md" for name in ("api", "ratings-and-items", "lists", "models", "administration")]
EXAMPLE = re.compile(r"```sh\n(?P<command>curl (?:(?!```).)*?)\n```\n\n```json\n(?P<answer>.*?)```", re.DOTALL)
HOST = "localhost:8000"
LEFT_OUT = "…"
SCHEDULES = "0 3 1 1 * train culsh"  # as in a page, but once a year
ADMIN_KEY = "key-of-the-admins"  # goes with all requests, because from the first made key on none is answered without


class Example(NamedTuple):
    """One documented request and the answer printed below it."""

    command: str
    answer: str

    def sent(self, client: httpx.Client, known: dict[str, str]) -> httpx.Response:
        """Do what curl would do, with $NAMES replaced by what earlier answers gave."""
        method, url, body, headers = "GET", "", None, {}
        words = iter(shlex.split(re.sub(r"\$([A-Z_]+)", lambda name: known[name[1]], self.command))[1:])
        for word in words:
            if word == "-X":
                method = next(words)
            elif word == "--json":
                method, body, headers["Content-Type"] = "POST", next(words), "application/json"
            elif word == "--data-binary":
                method, body = "POST", next(words)
            elif word == "-H":
                name, _, headers[name] = next(words).partition(": ")
            else:
                url = word.removeprefix(HOST)
        return client.request(method, url, content=body, headers=headers)


def examples() -> list[Example]:
    texts = [page.read_text("utf-8") for page in DOCUMENTS]
    return [Example(**found.groupdict()) for text in texts for found in EXAMPLE.finditer(text)]


def run_all(service: Service) -> Iterator[tuple[Example, httpx.Response]]:
    """Run every example; a job is waited for before the next one, as its reader would."""
    known = {"ADMIN_KEY": ADMIN_KEY, "YOUR_HOST": "8.8.8.8"}
    for example in examples():
        response = example.sent(service.client, known)
        answer = response.json()
        if isinstance(answer, dict):
            names = {"STREAM_ID": "stream_id", "VERSION": "version", "JOB": "id", "NEXT": "next"}
            names |= {"KEY": "id"} if "key" in answer else {}
            names |= {"WEBHOOK": "id"} if "secret" in answer else {}
            known |= {name: answer[key] for name, key in names.items() if answer.get(key)}
        if isinstance(answer, dict) and answer.get("state") in ("queued", "running", "activating"):
            service.api.ended_job(answer["id"])
        yield example, response


def imported(data: Path) -> Service:
    """A service that holds a small synthetic catalog, imported as a user would."""
    service = Service(data, fronts=2, data_sets="shop", admin_key=ADMIN_KEY, schedules=SCHEDULES)
    file = data.with_suffix(".csv")
    synthetic.write(file, synthetic.planted(0, 150, 60))
    assert run(["import", str(file), "--url", str(service.client.base_url)]) == 0
    service.client.headers["X-API-Key"] = ADMIN_KEY
    return service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = imported(tmp_path_factory.mktemp("api") / "data")
    yield service
    service.kill()


def test_every_example_answers_as_documented(service):
    for example, response in run_all(service):
        documented, answer = json.loads(example.answer), response.json()
        expected = documented.get("status", 200) if isinstance(documented, dict) else 200
        if isinstance(expected, int) and expected >= 400:
            assert response.status_code == expected, example.command
        else:
            assert response.is_success, f"{example.command}: {response.text}"
        assert shape_of(answer, documented) == shape_of(documented, documented), example.command


def shape_of(document: object, documented: object) -> object:
    """The names in a document, of a list those of its first element; without those that `documented` leaves out."""
    if isinstance(document, dict):
        known = documented if isinstance(documented, dict) else {}
        names = [name for name in document if name != LEFT_OUT and (name in known or LEFT_OUT not in known)]
        return {name: shape_of(document[name], known.get(name)) for name in names}
    if isinstance(document, list):
        first = documented[0] if isinstance(documented, list) and documented else None
        return [shape_of(document[0], first)] if document else []
    return None


def test_what_an_example_leaves_out_is_marked():
    whole: Any = {"a": 1, "b": [{"c": 2, "d": 3}]}
    documented: Any
    for documented in ({"a": 1, "…": "…"}, {"b": [{"c": 2, "…": "…"}, "…"], "…": "…"}, whole):
        assert shape_of(whole, documented) == shape_of(documented, documented)
    for documented in ({"a": 1}, {"a": 1, "b": [{"c": 2}]}, {"e": 1, "…": "…"}, {"b": [], "…": "…"}):
        assert shape_of(whole, documented) != shape_of(documented, documented)
