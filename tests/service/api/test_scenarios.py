"""Scenarios over HTTP, in one process and through a front."""

from __future__ import annotations

import pytest

from service.api.routes import scenarios
from tests.service.local import Local, serving


@pytest.fixture(scope="module", params=[False, True], ids=["one-process", "front"])
def app(request, tmp_path_factory):
    with serving(tmp_path_factory.mktemp("scenarios") / "data", front=request.param, max_n=50) as local:
        local.rate(*((f"u{user}", f"i{item}", 4.0) for item in range(8) for user in range(8 - item)))
        tags = [{"item": f"i{item}", "tags": {"parity": ["odd" if item % 2 else "even"]}} for item in range(8)]
        local.get("/popular", wait_for=local.post("/items", tags).json()["stream_id"])
        yield local


def put(app: Local, name: str, body: object) -> str:
    answer = app.request("PUT", f"/admin/scenarios/{name}", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()["stream_id"]


def removed(app: Local, name: str) -> str:
    return app.request("DELETE", f"/admin/scenarios/{name}").json()["stream_id"]


def test_a_scenario_is_put_replaced_listed_and_removed(app):
    put(app, "home", {"n": 3})
    body = {"n": 2, "filter": {"tag": "parity", "in": ["odd"]}, "exclude": ["i0"]}
    stream_id = put(app, "home", body)
    found = app.get("/admin/scenarios/home", wait_for=stream_id).json()
    assert found == {"name": "home", "body": body, "stream_id": stream_id, "as_of": stream_id}
    other = put(app, "a%2Fb%20é", {})
    listed = app.get("/admin/scenarios", wait_for=other).json()
    assert listed["scenarios"] == [{"name": "a/b é", "stream_id": other}, {"name": "home", "stream_id": stream_id}]
    assert (
        app.get("/admin/scenarios", wait_for=removed(app, "a%2Fb%20é")).json()["scenarios"] == listed["scenarios"][1:]
    )
    gone = app.get("/admin/scenarios/a%2Fb%20é")
    assert (gone.status_code, gone.json()["type"]) == (404, "urn:nearfield:problem:unknown-scenario")
    assert gone.json()["detail"] == "Invalid scenario: expected one of home, got 'a/b é'"
    app.get("/admin/scenarios", wait_for=removed(app, "home"))
    gone = app.get("/admin/scenarios/home").json()
    assert gone["detail"] == "Invalid scenario: expected one that was put; there is none, got 'home'"
    assert app.request("DELETE", "/admin/scenarios/never").status_code == 202


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"n": 0}, "Invalid body.n: expected 1 or more, got 0"),
        ({"n": 51}, "Invalid n: expected 1 to 50, got 51"),
        ({"wait_for": "1-0"}, "Invalid body.wait_for: expected no such name"),
        ({"scenario": "other"}, "Invalid body.scenario: expected no such name"),
        ({"users": ["u1"]}, "Invalid body.users: expected no such name"),
        ({"filter": {"tag": "parity"}}, "Invalid body.filter: expected one of all, any, not"),
    ],
)
def test_a_bad_body_is_refused_when_it_is_put(app, body, detail):
    answer = app.request("PUT", "/admin/scenarios/bad", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(detail)


def test_there_are_not_too_many(app, monkeypatch):
    monkeypatch.setattr(scenarios, "MAX_SCENARIOS", 1)
    app.get("/popular", wait_for=put(app, "one", {}))
    put(app, "one", {"n": 2})
    answer = app.request("PUT", "/admin/scenarios/two", json={})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "Invalid scenario: expected at most 1, got one more; DELETE one first"
    app.get("/popular", wait_for=removed(app, "one"))
