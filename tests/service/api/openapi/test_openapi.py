"""The OpenAPI document is complete, and no request that it allows (or that comes close) makes the service fail."""

import asyncio
import threading

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

from service.api.openapi.document import encoded
from service.settings.settings import Settings
from tests.service.local import unconnected
from tests.service.process import Service

OPERATIONS = {
    "post /ratings": "post_ratings",
    "delete /ratings/{user}/{item}": "delete_rating",
    "delete /users/{user}/events/{event_id}": "delete_event",
    "post /events": "post_events",
    "post /items": "post_items",
    "get /admin/sources": "list_sources",
    "delete /admin/sources/{source}": "remove_source",
    "post /admin/sources/{source}/undo": "undo_source",
    "patch /items": "patch_items",
    "get /items": "list_items",
    "get /users": "list_users",
    "post /users": "post_users",
    "put /users/{user}": "put_user",
    "patch /users/{user}": "patch_user",
    "get /users/{user}": "get_user",
    "delete /users/{user}": "delete_user",
    "get /items/{item}": "get_item",
    "patch /items/{item}": "patch_item",
    "delete /items/{item}": "delete_item",
    "get /recommend/{user}": "recommend_user",
    "post /recommend/{user}": "recommend_user_filtered",
    "post /recommend": "recommend_several",
    "get /popular": "list_popular",
    "get /latest": "list_latest",
    "get /items/{item}/neighbors": "list_item_neighbors",
    "get /items/{item}/users": "list_item_users",
    "get /users/{user}/neighbors": "list_user_neighbors",
    "post /neighbors": "list_set_neighbors",
    "post /admin/users/{user}/merge": "merge_user",
    "get /users/{user}/ratings": "list_user_ratings",
    "get /users/{user}/events": "list_user_events",
    "get /items/{item}/ratings": "list_item_ratings",
    "get /admin/stats": "get_stats",
    "get /admin/ratings": "list_ratings",
    "get /admin/items": "list_hidden_items",
    "get /admin/audit": "list_audit",
    "get /admin/export": "export",
    "post /admin/lists": "make_lists",
    "get /admin/exports": "list_exports",
    "get /admin/users/{user}/export": "export_user",
    "get /admin/exports/{job}": "get_export",
    "get /estimate/{user}/{item}": "estimate_rating",
    "post /admin/retrain": "retrain",
    "put /admin/experiments/{experiment}": "put_experiment",
    "get /admin/experiments": "list_experiments",
    "get /admin/experiments/{experiment}": "get_experiment",
    "delete /admin/experiments/{experiment}": "delete_experiment",
    "put /admin/scenarios/{name}": "put_scenario",
    "get /admin/scenarios": "list_scenarios",
    "get /admin/scenarios/{name}": "get_scenario",
    "delete /admin/scenarios/{name}": "delete_scenario",
    "post /admin/keys": "make_key",
    "get /admin/keys": "list_keys",
    "delete /admin/keys/{key}": "revoke_key",
    "post /admin/webhooks": "make_webhook",
    "get /admin/webhooks": "list_webhooks",
    "get /admin/schedules": "list_schedules",
    "delete /admin/webhooks/{webhook}": "remove_webhook",
    "get /admin/jobs": "list_jobs",
    "get /admin/jobs/{job}": "get_job",
    "delete /admin/jobs/{job}": "cancel_job",
    "get /admin/models": "list_models",
    "delete /admin/models/{name}": "end_model",
    "get /admin/models/{model}/quality": "get_quality",
    "post /admin/models/{version}/activate": "activate_model",
    "put /admin/items/{item}/hidden": "hide_item",
    "delete /admin/items/{item}/hidden": "show_item",
    "delete /admin/users/{user}": "forget_user",
    "get /health/live": "get_live",
    "get /health/ready": "get_ready",
    "get /metrics": "get_metrics",
}
ROUTES = OPERATIONS.keys()
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
NOTHING_TO_BREAK = {
    *("get /health/live", "get /health/ready", "get /metrics"),  # no parameters
    *(
        "delete /admin/jobs/{job}",
        "post /admin/models/{version}/activate",
    ),  # one, which may be any text
    *("get /admin/keys", "delete /admin/keys/{key}"),
    *("get /admin/schedules", "get /admin/webhooks", "delete /admin/webhooks/{webhook}"),
    *("get /admin/exports", "get /admin/exports/{job}"),
}
EXAMPLES = 25  # per route and mode
STARTS_A_PROCESS = {"get /admin/export", "get /admin/users/{user}/export"}
EXAMPLES_OF_A_PROCESS = 4  # each takes seconds of a processor
TIMEOUT_S = 60.0  # an export starts a process, which waits for a processor beside other tests


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    return document_with(tmp_path_factory.mktemp("openapi"), api_key="key-of-every-client")


def document_with(data, **keys):
    return unconnected(Settings(data=data, **keys)).openapi()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_every_route_is_described_under_a_name_that_clients_are_generated_from(document):
    assert {name: operation["operationId"] for name, operation in operations(document)} == OPERATIONS


def test_every_read_of_ratings_can_wait(document):
    for name, operation in operations(document):
        if name.startswith("get ") and not name.startswith(
            (
                "get /health",
                "get /metrics",
                "get /admin/audit",
                "get /admin/keys",
                "get /admin/exports",
                "get /admin/webhooks",
                "get /admin/schedules",
            )
        ):
            assert "wait_for" in {parameter["name"] for parameter in operation["parameters"]}, name


@pytest.mark.parametrize("name", ["RecommendBody", "UsersBody", "AnonymousBody"])
def test_every_body_that_asks_can_wait(document, name):
    assert "wait_for" in document["components"]["schemas"][name]["properties"]


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


def test_no_key_is_demanded_that_the_service_does_not_ask_for(tmp_path):
    without = {name: one["security"] for name, one in operations(document_with(tmp_path))}
    assert all(security in ([], [{}, {"key": []}, {"bearer": []}]) for security in without.values())
    with_admin_key = document_with(tmp_path, admin_key="key-of-the-admins")
    for name, operation in operations(with_admin_key):
        if " /admin/" in name:
            assert operation["security"] == [{"key": []}, {"bearer": []}], name
        else:
            assert operation["security"] == without[name], name


def test_the_document_is_made_once_and_meanwhile_others_are_answered(tmp_path, monkeypatch):
    app, names = unconnected(Settings(data=tmp_path)), []

    def made():
        names.append(threading.current_thread().name)
        return {}

    monkeypatch.setattr(app, "openapi", made)

    async def both():
        return await asyncio.gather(*(encoded(app, app.gateway.keys) for _ in range(2)))

    assert asyncio.run(both()) == [b"{}", b"{}"]
    assert len(names) == 1
    assert names != [threading.main_thread().name]


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """The document as served, by a service that has a few ratings and a model."""
    service = Service(tmp_path_factory.mktemp("fuzzed") / "data")
    service.rate(*((f"u{index % 7}", f"i{index % 5}", float(index % 5)) for index in range(40)))
    service.train("culsh", n_factors=4, n_neighbors=2, n_epochs=2)
    yield schemathesis.openapi.from_url(f"{service.client.base_url}/openapi.json", timeout=60)
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
        max_examples=EXAMPLES_OF_A_PROCESS if route in STARTS_A_PROCESS else EXAMPLES,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=api[path][method].as_strategy(generation_mode=mode))
    def check(case):
        response = case.call(timeout=TIMEOUT_S)
        if response.status_code == 503 and response.json()["type"].endswith("not-seen-yet"):
            return  # what a position in the future gets
        case.validate_response(response, checks=CHECKS)

    check()
