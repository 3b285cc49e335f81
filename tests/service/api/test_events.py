"""`POST /events` over HTTP, in one process and through a front."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.local import Local, serving
from tests.service.waiting import eventually

DAY_S = 86_400.0


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    data = tmp_path_factory.mktemp("events") / "data"
    with serving(data, events="view=1,purchase=10,dislike=-2,impression=seen") as local:
        yield local


def post(app: Local, *events: tuple[str, ...], **more: object) -> str:
    names = "user", "item", "type", "event_id"
    answer = app.post("/events", [dict(zip(names, event, strict=False)) | more for event in events])
    assert answer.status_code == 202, answer.text
    assert answer.json()["rejected"] == []
    stream_id: str = answer.json()["stream_id"]
    return stream_id


def names(app: Local, path: str, **query: object) -> list[str]:
    return [one["item"] for one in app.get(path, **query).json()["items"]]


def test_an_event_changes_the_next_list(app: Local) -> None:
    position = post(app, ("u", "lamp", "purchase"), ("v", "lamp", "view"), ("v", "desk", "view"))
    assert names(app, "/popular", wait_for=position) == ["lamp", "desk"]
    assert names(app, "/recommend/u") == ["desk"]
    position = post(app, ("u", "desk", "impression"))
    assert names(app, "/recommend/u", wait_for=position) == []
    assert names(app, "/recommend/u", include_seen=True) == ["lamp", "desk"]
    position = post(app, ("u", "desk", "dislike"))
    assert names(app, "/recommend/u", wait_for=position, include_seen=True) == ["lamp"]
    assert app.get("/users/u/ratings").json()["ratings"] == []


def test_a_deleted_event_has_never_come(app: Local) -> None:
    at = {"timestamp": 1700000000}
    before = app.get("/users/w/events", wait_for=post(app, ("w", "lamp", "view", "first"), **at)).json()
    shown = names(app, "/recommend/w")
    post(app, ("w", "lamp", "purchase", "order 1/2"), ("w", "desk", "purchase", "order 1/3"))
    post(app, ("w", "rug", "impression", "order 1/4"))
    for n in (2, 3, 4):
        answer = app.request("DELETE", f"/users/w/events/order%201%2F{n}")
        assert (answer.status_code, answer.json()["removed"]) == (202, True), answer.text
    assert app.get("/users/w/events").json() | {"as_of": ""} == before | {"as_of": ""}
    assert names(app, "/recommend/w") == shown
    for path in ("w/events/order%201%2F2", "w/events/unknown", "nobody/events/first"):
        assert app.request("DELETE", f"/users/{path}").json()["removed"] is False
    assert app.get("/users/nobody/events").status_code == 404  # a deletion makes nobody known
    again = post(app, ("w", "lamp", "purchase", "order 1/2"))  # counts: the first has never come
    assert app.get("/users/w/events", wait_for=again).json()["events"][0]["strength"] == 11.0
    answer = app.request("DELETE", "/users/w/events/" + "e" * 129)
    assert answer.status_code == 422


def test_a_deleted_event_stays_away_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as app:
        post(app, ("u", "lamp", "view", "one"), ("u", "lamp", "purchase", "two"), ("u", "desk", "view", "three"))
        assert app.request("DELETE", "/users/u/events/two").json()["removed"]
        assert app.request("DELETE", "/users/u/events/three").json()["removed"]
        before = app.get("/users/u/events").json()
        assert [(one["item"], one["strength"]) for one in before["events"]] == [("lamp", 1.0)]
    with serving(data) as app:
        assert app.get("/users/u/events").json() == before
        assert app.request("DELETE", "/users/u/events/one").json()["removed"]
        assert app.get("/users/u/events").json()["events"] == []


def test_a_list_may_count_events_that_are_not_stored(app: Local) -> None:
    position = post(app, ("x", "sofa", "view"), ("y", "sofa", "view"), ("y", "rug", "purchase"))
    told = {"wait_for": position, "n": 50}
    for path, before in (("/recommend", []), ("/recommend/x", ["sofa"])):
        events = [{"item": "rug", "type": "purchase", "timestamp": "2023-11-14"}, {"item": "sofa", "type": "dislike"}]
        answer = app.post(path, {"events": events, **told}).json()
        assert {"rug", "sofa"}.isdisjoint(line["item"] for line in answer["items"])
        seen = app.post(path, {"events": events[1:], "include_seen": True, **told}).json()["items"]
        assert "sofa" not in [line["item"] for line in seen]
        assert "rug" in [line["item"] for line in seen]
        assert "sofa" not in before or "sofa" not in names(app, "/recommend/x", wait_for=position)
    for body, said in (
        ({"events": [{"item": "rug", "type": "lease"}]}, "Invalid type: expected one of the setting events (view, pur"),
        ({"events": []}, "expected at least one rating or event, got none"),
        ({"ratings": None}, "expected at least one rating or event, got none"),
        ({"events": [{"item": "rug"}]}, "type"),
        ({"events": [{"item": "rug", "type": "view"}], "users": ["x"]}, "users, or ratings and events"),
    ):
        answer = app.post("/recommend", body)
        assert answer.status_code == 422
        assert said in answer.text


def test_the_events_of_a_user_are_listed_by_item(app: Local) -> None:
    app.post("/ratings", [{"user": "z", "item": "rug", "rating": 5}, {"user": "z", "item": "hat", "rating": 1}])
    post(app, ("z", "rug", "view"), ("z", "rug", "purchase"), timestamp=1700000000)
    post(app, ("z", "bed", "dislike"), timestamp=1600000000)
    position = post(app, ("z", "cup", "impression"), ("z", "sofa", "view"), timestamp=1650000000)
    answer = app.get("/users/z/events", wait_for=position).json()
    assert answer["events"] == [
        {"item": "rug", "strength": 11.0, "timestamp": 1700000000.0},
        {"item": "sofa", "strength": 1.0, "timestamp": 1650000000.0},
        {"item": "bed", "strength": -2.0, "timestamp": 1600000000.0},
        {"item": "cup", "strength": 0.0, "timestamp": None},
    ]
    assert (answer["user"], answer["n_items"]) == ("z", 4)
    assert app.get("/users/z/events", n=1, offset=1).json()["events"] == answer["events"][1:2]
    assert app.get("/users/nobody/events").status_code == 404
    assert app.get("/users/z/ratings").json()["n_ratings"] == 2


def test_a_repeated_event_is_accepted_and_counts_once(app: Local) -> None:
    position = post(app, ("w", "a", "dislike", "e1"), ("w", "a", "view", "e2"))
    position = post(app, ("w", "a", "view", "e2"), ("w", "b", "purchase", "e2"))
    assert "a" not in names(app, "/recommend/w", wait_for=position, include_seen=True)  # −2 + 1, not −2 + 1 + 1
    assert app.get("/items/b").status_code == 200  # the id is known, though the event with other content did not count
    assert "b" not in names(app, "/popular")


def test_each_element_is_judged_alone(app: Local) -> None:
    good = {"user": "x", "item": "y", "type": "view"}
    answer = app.post("/events", [good, good | {"type": "cart"}, good | {"timestamp": 1.7e12}]).json()
    assert answer["accepted"] == 1
    assert [one["index"] for one in answer["rejected"]] == [1, 2]
    assert answer["rejected"][0]["error"] == (
        "Invalid type: expected one of the setting events (view, purchase, dislike, impression), got 'cart'"
    )
    alone = app.post("/events", good | {"event_id": ""})
    assert (alone.status_code, alone.json()["detail"]) == (
        422,
        "Invalid event_id: expected text of at least 1 character",
    )
    assert app.post("/events?x=1", good).status_code == 422
    assert app.post("/events", [good] * 1001).status_code == 422


def test_events_are_counted(app: Local) -> None:
    page = app.get("/metrics").text
    assert 'route="/events"' in page
    assert "nearfield_events_accepted_total" in page


def test_a_forgotten_user_may_repeat_an_event(app: Local) -> None:
    post(app, ("gone", "c", "purchase", "once"))
    forgotten = app.request("DELETE", "/admin/users/gone").json()["stream_id"]
    assert "c" not in names(app, "/popular", wait_for=forgotten)
    position = post(app, ("gone", "c", "purchase", "once"))
    assert "c" in names(app, "/popular", wait_for=position)


def test_trends_and_latest_items_stand_in_for_popular_ones(app: Local) -> None:
    now_s = time.time()
    for n in range(3):
        post(app, (f"t{n}", "once loved", "purchase"), timestamp=now_s - 5 * DAY_S)
    post(app, ("t0", "of today", "purchase"))
    position = post(app, ("t1", "disliked", "dislike"), ("t2", "disliked", "dislike"))
    only = "once loved", "of today"
    ours = [item for item in names(app, "/popular", wait_for=position, n=50) if item in only]
    assert ours == ["once loved", "of today"]
    trends = app.get("/popular", half_life="1d", n=50).json()["items"]
    assert [one["item"] for one in trends if one["item"] in only] == ["of today", "once loved"]
    scores = {one["item"]: one["score"] for one in trends}
    assert scores["once loved"] == pytest.approx(3 / 2**5, rel=1e-3)
    assert "disliked" not in scores
    assert names(app, "/recommend/stranger", fallback="trending", n=50) == [one["item"] for one in trends]
    answer = app.get("/recommend/stranger", fallback="trending").json()
    assert (answer["fallback"], answer["personalized"]) == ("trending", False)
    assert answer["warnings"] == ["no model is live yet: POST /admin/retrain trains one; these are trending items"]
    refused = app.get("/popular", half_life="2d")
    assert (refused.status_code, refused.json()["detail"]) == (
        422,
        "Invalid half_life: expected one of 1d, 7d, 30d, got '2d'",
    )


def next_ms() -> None:
    """Return in a later millisecond: items that came within one are the latest in no order."""
    now_ms = int(time.time() * 1000)
    eventually(lambda: int(time.time() * 1000) > now_ms)


def test_latest_items_come_first(app: Local) -> None:
    next_ms()
    post(app, ("l", "older", "view"))
    next_ms()
    position = post(app, ("l", "newer", "view"), ("l", "only seen", "impression"))
    latest = app.get("/latest", wait_for=position).json()["items"]
    assert [one["item"] for one in latest[:2]] == ["newer", "older"]
    assert latest[0]["score"] == pytest.approx(time.time(), abs=100)
    assert "only seen" not in names(app, "/latest", n=50)
    hour_s = time.time() - 3600
    next_ms()
    items = [{"item": "older", "published": hour_s}, {"item": "announced", "published": hour_s + 5}, {"item": "plain"}]
    position = app.post("/items", items).json()["stream_id"]
    assert names(app, "/latest", wait_for=position, n=2) == ["plain", "newer"]
    assert names(app, "/latest", n=50)[-2:] == ["announced", "older"]
    assert names(app, "/latest", min_ratings=1, n=50)[-1] == "older"
    assert "plain" not in names(app, "/latest", min_ratings=1, n=50)
    assert names(app, "/latest", n=1, offset=1) == ["newer"]
    assert names(app, "/recommend/stranger", fallback="latest", n=2) == ["plain", "newer"]
    assert not {"newer", "older", "only seen"} & set(names(app, "/recommend/l", fallback="latest", n=50))
    films = [{"item": "of 1954", "published": "1954-04-26"}, {"item": "of 1970", "published": 0}]
    position = app.post("/items", films).json()["stream_id"]
    oldest = app.get("/latest", wait_for=position, n=50).json()["items"][-2:]
    assert oldest == [{"item": "of 1970", "score": 0.0}, {"item": "of 1954", "score": -494985600.0}]


def test_a_batch_counts_once_while_its_source_is_remembered(app: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.engine.state.sources.MAX_SOURCES", 2)

    def rated(source: str, offset: int, value: float) -> float:
        headers, batch = {"X-Source": source, "X-Offset": str(offset)}, [{"user": "q", "item": "c", "rating": value}]
        answer = app.request("POST", "/ratings", json=batch, headers=headers)
        assert answer.status_code == 202
        found = app.get("/users/q/ratings", wait_for=answer.json()["stream_id"]).json()["ratings"]
        return float(found[0]["rating"])

    assert rated("one", 7, 1.0) == 1.0
    assert rated("two", 7, 2.0) == 2.0
    assert rated("one", 7, 3.0) == 2.0  # delivered again
    assert rated("one", 8, 4.0) == 4.0
    assert rated("three", 0, 5.0) == 5.0  # the source two has not advanced for longest
    assert rated("one", 8, 1.0) == 5.0
    assert rated("two", 7, 2.0) == 2.0
    for headers in ({"X-Source": "x" * 257, "X-Offset": "1"}, {"X-Source": "x"}, {"X-Source": "x", "X-Offset": "-1"}):
        assert app.request("POST", "/ratings", json=[], headers=headers).status_code == 422
