"""Attributes of users over HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.local import Local, serving


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with serving(tmp_path_factory.mktemp("users") / "data") as local:
        local.rate(("u", "a", 5.0), ("u", "b", 3.0), ("v", "a", 4.0))
        yield local


def details(app: Local, user: str, answer: Any) -> dict[str, Any]:
    """What the service says of a user when it has learned a write."""
    assert answer.status_code == 202, answer.text
    document: dict[str, Any] = app.get(f"/users/{user}", wait_for=answer.json()["stream_id"]).json()
    document.pop("as_of")
    return document


def test_attributes_are_put_patched_and_removed(app: Local) -> None:
    attributes = {"tags": {"country": ["de"], "plan": ["trial"]}, "numbers": {"visits": 3.0}}
    put = app.request("PUT", "/users/u", json=attributes)
    assert details(app, "u", put) == attributes | {"user": "u", "n_ratings": 2}
    patch = app.request("PATCH", "/users/u", json={"tags": {"plan": None}, "numbers": {"age": 34}})
    expected = {"tags": {"country": ["de"]}, "numbers": {"visits": 3.0, "age": 34.0}}
    assert details(app, "u", patch) == expected | {"user": "u", "n_ratings": 2}
    gone = app.request("DELETE", "/users/u")
    assert details(app, "u", gone) == {"user": "u", "tags": {}, "numbers": {}, "n_ratings": 2}


def test_a_user_without_ratings_may_have_attributes(app: Local) -> None:
    assert app.get("/users/new%2Fone").status_code == 404
    patch = app.request("PATCH", "/users/new%2Fone", json={"tags": {"country": ["ch"]}})
    assert details(app, "new%2Fone", patch)["tags"] == {"country": ["ch"]}
    answer = app.get("/recommend/new%2Fone").json()
    assert (answer["personalized"], answer["fallback"]) == (False, "popular")


def test_users_are_posted_together_and_judged_alone(app: Local) -> None:
    users = [{"user": f"many-{n}", "tags": {"half": [str(n % 2)]}} for n in range(250)]
    users[7] = {"user": "many-7", "title": "no attribute of users"}
    answer = app.post("/users", users)
    assert details(app, "many-249", answer)["tags"] == {"half": ["1"]}
    assert answer.json()["accepted"] == 249
    assert answer.json()["rejected"] == [{"index": 7, "error": "Invalid user object: expected no field title"}]
    lines = "".join(json.dumps(user) + "\n" for user in users[:3])
    posted = app.request("POST", "/users", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert posted.json()["accepted"] == 3


def test_users_are_listed_by_a_filter(app: Local) -> None:
    users = [
        {"user": f"of-{n}", "tags": {"parity": ["odd" if n % 2 else "even"]}, "numbers": {"n": n}} for n in range(40)
    ]
    stream_id = app.post("/users", users).json()["stream_id"]
    found, cursor = list[str](), None
    while not found or cursor is not None:
        more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        page = app.get("/users", n=7, wait_for=stream_id, **{"tag.parity": "odd", "max.n": 29}, **more).json()
        found, cursor = [*found, *(user["user"] for user in page["users"])], page["next"]
    assert sorted(found) == sorted(f"of-{n}" for n in range(1, 30, 2))
    refused = app.get("/users", **{"tag.partiy": "odd"})
    assert refused.status_code == 422
    assert "expected a tag of users" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("method", "body", "detail"),
    [
        ("PUT", [], "Invalid user object: expected an object"),
        ("PUT", {"tags": {"taken": [7]}}, "Invalid tags.taken: expected"),
        ("PUT", {"numbers": {"taken": 1}}, "Invalid numbers.taken: expected a name of numbers, got one of tags"),
        ("PATCH", {"numbers": {"n": "x"}}, "Invalid numbers.n: expected"),
        ("PATCH", {"embedding": [1.0]}, "expected no field embedding"),
        ("PATCH", {"tags": {"more": [str(n) for n in range(600)]}}, "expected at most 1,000 values in all, got 1,200"),
    ],
)
def test_what_cannot_be_an_attribute_is_refused(app: Local, method: str, body: Any, detail: str) -> None:
    present = {"tags": {"taken": [str(n) for n in range(600)]}}
    details(app, "taken", app.request("PUT", "/users/taken", json=present))
    refused = app.request(method, "/users/taken", json=body)
    assert refused.status_code in (400, 422)
    assert detail in refused.text
    assert app.get("/users/taken").json()["tags"] == present["tags"]


def test_new_users_and_names_count_against_limits(tmp_path: Any) -> None:
    with serving(tmp_path / "data", max_new_ids_per_hour=2, max_names=1) as local:
        assert local.post("/users", [{"user": "a"}, {"user": "b"}]).status_code == 202
        refused = local.request("PUT", "/users/c", json={})
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:nearfield:problem:too-many-new-ids")
        refused = local.request("PUT", "/users/a", json={"tags": {"x": ["1"], "y": ["1"]}})
        assert (refused.status_code, refused.json()["detail"][:47]) == (
            422,
            "Invalid names: expected at most 1 further ones ",
        )


def test_a_key_that_may_only_read_changes_no_user(tmp_path: Any) -> None:
    with serving(tmp_path / "data", read_key="key-that-may-read", write_key="key-that-may-write") as local:
        answers = [
            local.request("PUT", "/users/u", json={}, headers={"X-API-Key": key}).status_code
            for key in ("key-that-may-read", "key-that-may-write")
        ]
        assert answers == [403, 202]
