"""`POST /events` over HTTP, in one process and through a front."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.local import Local, serving


@pytest.fixture(scope="module", params=[False, True], ids=["one-process", "front"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    data = tmp_path_factory.mktemp("events") / "data"
    with serving(data, front=request.param, events="view=1,purchase=10,dislike=-2,impression=seen") as local:
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
