"""Scenarios over HTTP, in one process and through a front."""

import pytest

from service.api.routes import scenarios
from tests.service.local import Local, serving


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("scenarios") / "data", max_n=50) as local:
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
        ({"n": 50, "offset": 951, "diversity": 0.1}, "Invalid offset: expected offset + n of at most 1,000"),
        ({"wait_for": "1-0"}, "Invalid body.wait_for: expected no such name"),
        ({"model": "m", "experiment": "e"}, "Invalid model: expected none with an experiment"),
        ({"scenario": "other"}, "Invalid body.scenario: expected no such name"),
        ({"users": ["u1"]}, "Invalid body.users: expected no such name"),
        ({"filter": {"tag": "parity"}}, "Invalid body.filter: expected in together with tag, got tag alone"),
    ],
)
def test_a_bad_body_is_refused_when_it_is_put(app, body, detail):
    answer = app.request("PUT", "/admin/scenarios/bad", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(detail)


def test_a_model_that_is_no_text_is_refused(app):
    json = {"content": b'{"model": "\\ud800"}', "headers": {"Content-Type": "application/json"}}
    for method, path in (("PUT", "/admin/scenarios/bad"), ("POST", "/recommend/u1")):
        answer = app.request(method, path, **json)
        assert (answer.status_code, answer.json()["detail"][:20]) == (422, "Invalid body.model: ")


@pytest.mark.parametrize(
    "path", ["/users", "/items", "/users/u1/ratings", "/items/i1/ratings", "/admin/items", "/admin/ratings"]
)
def test_a_listing_by_default_is_as_long_as_the_setting_allows(app, path):
    assert app.get(path).status_code == 200  # the default of `n` is 100, and `max_n` 50
    assert app.get(path, n=51).json()["detail"] == "Invalid n: expected 1 to 50, got 51"


def test_there_are_not_too_many(app, monkeypatch):
    monkeypatch.setattr(scenarios, "MAX_SCENARIOS", 1)
    app.get("/popular", wait_for=put(app, "one", {}))
    put(app, "one", {"n": 2})
    answer = app.request("PUT", "/admin/scenarios/two", json={})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "Invalid scenario: expected at most 1, got one more; DELETE one first"
    app.get("/popular", wait_for=removed(app, "one"))


def items(answer) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [line["item"] for line in answer.json()["items"]]


def test_lists_take_the_body_of_a_scenario_and_fields_of_the_request_over_it(app):
    odd, even = ({"tag": "parity", "in": [parity]} for parity in ("odd", "even"))
    stream_id = put(app, "odd", {"n": 3, "filter": odd, "exclude": ["i1"], "max_per": {"tag": "parity", "n": 2}})
    assert items(app.get("/recommend/x", scenario="odd", wait_for=stream_id)) == ["i3", "i5"]
    assert items(app.get("/recommend/x", scenario="odd", n=1, exclude="i3")) == ["i1"]
    assert items(app.get("/recommend/x", scenario="odd", **{"tag.parity": "even"})) == ["i0", "i2"]
    assert items(app.post("/recommend/x", {"scenario": "odd"})) == ["i3", "i5"]
    assert items(app.post("/recommend/x", {"scenario": "odd", "filter": even, "max_per": None})) == ["i0", "i2", "i4"]
    assert items(app.post("/recommend/x", {"scenario": "odd", "exclude": []})) == ["i1", "i3"]
    for answer in app.post("/recommend", {"scenario": "odd", "users": ["x", "y"]}).json():
        assert [line["item"] for line in answer["items"]] == ["i3", "i5"]
    anonymous = {"scenario": "odd", "ratings": [{"item": "nowhere", "rating": 3}]}
    assert items(app.post("/recommend", anonymous)) == ["i3", "i5"]


def test_a_scenario_counts_as_it_is_when_the_list_is_made(app):
    for n in (1, 2, 3):
        stream_id = put(app, "changes", {"n": n})
        assert len(items(app.get("/recommend/x", scenario="changes", wait_for=stream_id))) == n
    gone = app.get("/recommend/x", scenario="changes", wait_for=removed(app, "changes"))
    assert (gone.status_code, gone.json()["type"]) == (404, "urn:nearfield:problem:unknown-scenario")
    assert "got 'changes'" in gone.json()["detail"]
    assert app.post("/recommend/x", {"scenario": "never"}).status_code == 404


@pytest.mark.parametrize(
    ("body", "slug"), [({"model": "ended"}, "unknown-model"), ({"experiment": "over"}, "unknown-experiment")]
)
def test_a_scenario_with_what_has_ended_is_named(app, body, slug):
    refused = app.get("/recommend/u1", scenario="old", wait_for=put(app, "old", body))
    assert (refused.status_code, refused.json()["type"]) == (404, f"urn:nearfield:problem:{slug}")
    assert refused.json()["detail"].endswith("(with the scenario 'old')")


def test_a_refusal_names_the_scenario(app):
    stream_id = put(app, "wrong", {"filter": {"tag": "color", "in": ["red"]}})
    answer = app.get("/recommend/x", scenario="wrong", wait_for=stream_id)
    assert answer.status_code == 422
    expected = "Invalid filter: expected a tag of the catalog (parity), got 'color' (with the scenario 'wrong')"
    assert answer.json()["detail"] == expected
    assert items(app.get("/recommend/x", scenario="wrong", **{"tag.parity": "odd"}))[0] == "i1"


@pytest.mark.parametrize(
    ("rules", "detail"),
    [
        ({"boosts": [{"add": 1}]}, "body.boosts.0.filter: expected"),
        (
            {"boosts": [{"filter": {"tag": "parity", "in": []}, "add": 1}]},
            "body.boosts.0.filter: expected a list of texts as in, got an empty one",
        ),
        (
            {"boosts": [{"filter": {"tag": "parity", "in": ["odd"]}, "add": "much"}]},
            "body.boosts.0.add: expected a number",
        ),
        ({"boosts": [{"filter": {"tag": "parity", "in": ["odd"]}, "add": 1}] * 6}, "body.boosts: expected at most 5"),
        ({"boosts": [{"filter": {"tag": "color", "in": ["x"]}, "add": 1}]}, "filter: expected a tag of the catalog"),
        ({"pins": [{"item": "i0"}]}, "body.pins.0.at: expected"),
        ({"pins": [{"item": "i0", "at": 0}]}, "body.pins.0.at: expected 1 or more, got 0"),
        ({"pins": [{"item": "i0", "at": 1001}]}, "body.pins.0.at: expected at most 1000, got 1001"),
        ({"pins": [{"item": "i0", "at": 1}, {"item": "i0", "at": 2}]}, "body.pins: expected each item once, got 'i0'"),
        ({"pins": [{"item": "i0", "at": 1}, {"item": "i1", "at": 1}]}, "body.pins: expected each place once, got 1"),
        ({"max_per": {"tag": "parity", "n": 0}}, "body.max_per.n: expected 1 or more, got 0"),
        ({"max_per": {"tag": "color", "n": 1}}, "max_per.tag: expected a tag of the catalog (parity), got 'color'"),
        ({"max_per": "parity"}, "body.max_per: expected"),
        ({"diversity": 1.5}, "body.diversity: expected at most 1.0, got 1.5"),
        ({"pins": [{"item": "i0", "at": 1}], "cursor": ""}, "cursor: expected none with pins, max_per or diversity"),
        (
            {
                "boosts": [{"filter": {"tag": "parity", "in": ["even"]}, "add": 1}] * 2,
                "explore": 0.1,
                "explore_below": 11,
            },
            "explore_below: expected at most 10 with 2 boosts, got 11",
        ),
        (
            {"diversity": 0.5, "offset": 991},
            "offset: expected offset + n of at most 1,000 in a list with rules, got 1,001",
        ),
    ],
)
def test_bad_rules_are_refused(app, rules, detail):
    answer = app.post("/recommend/x", rules)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"Invalid {detail}"), answer.json()["detail"]
