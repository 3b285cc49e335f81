"""The OpenAPI document is complete, and no request that it allows (or that comes close) makes the service fail."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from service.app import create_app
from service.settings import Settings
from tests.service.process import Service

ROUTES = {
    "post /ratings",
    "delete /ratings/{user}/{item}",
    "get /recommend/{user}",
    "post /recommend/{user}",
    "post /recommend",
    "get /popular",
    "get /items/{item}/neighbors",
    "get /users/{user}/neighbors",
    "get /users/{user}/ratings",
    "get /estimate/{user}/{item}",
    "post /admin/retrain",
    "get /admin/jobs",
    "get /admin/jobs/{job}",
    "delete /admin/jobs/{job}",
    "get /admin/models",
    "post /admin/models/{version}/activate",
    "put /admin/items/{item}/hidden",
    "delete /admin/items/{item}/hidden",
    "delete /admin/users/{user}",
    "get /health/live",
    "get /health/ready",
    "get /metrics",
}
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
NOTHING_TO_BREAK = {"get /health/live", "get /health/ready", "get /metrics"}  # no parameters
EXAMPLES = 25  # per route and mode


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    return create_app(Settings(data=tmp_path_factory.mktemp("openapi"))).openapi()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_every_route_is_described(document):
    assert {name for name, _ in operations(document)} == ROUTES


def test_every_read_of_ratings_can_wait(document):
    for name, operation in operations(document):
        if name.startswith("get ") and not name.startswith(("get /health", "get /metrics")):
            assert "wait_for" in {parameter["name"] for parameter in operation["parameters"]}, name


def test_every_route_says_what_it_answers_and_how_it_fails(document):
    for name, operation in operations(document):
        success = next(answer for status, answer in operation["responses"].items() if status < "300")
        assert success["content"], name
        assert set(operation["responses"]) >= {"401", "422", "429", "500", "503"}, name


def test_references_lead_somewhere(document):
    schemas = document["components"]["schemas"]

    def references(node):
        if isinstance(node, dict):
            if "$ref" in node:
                yield node["$ref"]
            node = list(node.values())
        if isinstance(node, list):
            for child in node:
                yield from references(child)

    assert {name.removeprefix("#/components/schemas/") for name in references(document)} <= schemas.keys()


def test_only_operation_needs_no_key(document):
    free = {name for name, operation in operations(document) if operation["security"] == []}
    assert free == {"get /health/live", "get /health/ready", "get /metrics"}


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """The document as served, by a service that has a few ratings and a model."""
    service = Service(tmp_path_factory.mktemp("fuzzed") / "data")
    service.rate(*((f"u{index % 7}", f"i{index % 5}", float(index % 5)) for index in range(40)))
    assert service.retrain("culsh", n_factors=4, n_neighbours=2, n_epochs=2)["promoted"]
    yield schemathesis.openapi.from_url(f"{service.client.base_url}/openapi.json")
    assert service.get("/health/ready").status_code == 200
    service.kill()


def requests():
    for route in sorted(ROUTES):
        yield pytest.param(route, GenerationMode.POSITIVE, id=f"valid {route}")
        if route not in NOTHING_TO_BREAK:
            yield pytest.param(route, GenerationMode.NEGATIVE, id=f"invalid {route}")


@pytest.mark.parametrize(("route", "mode"), list(requests()))
def test_no_request_makes_the_service_fail(api, route, mode):
    method, path = route.split()

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=api[path][method].as_strategy(generation_mode=mode))
    def check(case):
        response = case.call()
        if response.status_code == 503 and response.json()["type"].endswith("not-seen-yet"):
            return  # what a position in the future gets
        case.validate_response(response, checks=CHECKS)

    check()
