"""Patches of many items in one request, in one process and through a front."""

import json
import time
from typing import Any

import pytest

from tests.service.local import Local, serving

N_ITEMS = 1000
MANY_S = 2.0  # for 1,000 patches; a hundredth of it on an idle machine


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("patches") / "data") as local:
        yield local


def put(app: Local, *items: dict[str, Any]) -> None:
    app.get("/popular", wait_for=app.post("/items", list(items)).json()["stream_id"])


def patched(app: Local, body: object) -> dict[str, Any]:
    answer = app.request("PATCH", "/items", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


def shown(app: Local, item: str, stream_id: object) -> tuple[object, object]:
    document = app.get(f"/items/{item}", wait_for=stream_id).json()
    return document["tags"], document["numbers"]


def test_a_new_price_keeps_the_tags(app):
    put(app, *({"item": f"kept-{n}", "tags": {"genre": ["x"]}, "numbers": {"price": 1}} for n in range(3)))
    answer = patched(app, [{"item": f"kept-{n}", "numbers": {"price": n + 5}} for n in range(4)])
    assert (answer["accepted"], answer["rejected"]) == (4, [])
    for n in range(3):
        assert shown(app, f"kept-{n}", answer["stream_id"]) == ({"genre": ["x"]}, {"price": n + 5})
    assert shown(app, "kept-3", answer["stream_id"]) == ({}, {"price": 8})  # unknown before
    one = patched(app, {"item": "kept-0", "tags": {"genre": None}})
    assert shown(app, "kept-0", one["stream_id"]) == ({}, {"price": 5})


def test_patches_of_one_item_count_in_their_order(app):
    patches: list[dict[str, Any]] = [
        {"tags": {"genre": ["x"]}, "available": False},
        {"tags": {"genre": ["y"], "mood": ["z"]}},
        {"tags": {}},
    ]
    answer = patched(app, [{"item": "twice"} | patch for patch in patches])
    assert shown(app, "twice", answer["stream_id"])[0] == {"genre": ["y"], "mood": ["z"]}


def test_elements_are_checked_one_by_one(app):
    put(app, {"item": "full", "tags": {"genre": [str(n) for n in range(600)]}}, {"item": "gone"})
    app.get("/popular", wait_for=app.request("DELETE", "/items/gone").json()["stream_id"])
    halves = {"mood": [str(n) for n in range(500)]}
    elements = [
        {"item": "full", "tags": halves},
        {"item": "full", "tags": {"genre": None, **halves}},
        {"numbers": {"price": 1}},
        {"item": "gone", "available": True},
        {"item": "full", "tags": {"genre": [str(n) for n in range(501)]}},
        {"item": "full", "tags": None, "numbers": {"price": 1}},
    ]
    reasons = {
        0: "Invalid tags: expected at most 1,000 values in all, got 1,100",
        2: "Invalid item object: expected a field item, got none",
        3: "item 'gone' was deleted; POST /items brings it back",
        4: "Invalid tags: expected at most 1,000 values in all, got 1,001",
    }
    answer = patched(app, elements)
    assert answer["accepted"] == 2
    assert {one["index"]: one["error"] for one in answer["rejected"]} == reasons
    assert shown(app, "full", answer["stream_id"]) == ({}, {"price": 1})
    lines = "\n\n".join(json.dumps(element) for element in (*elements[2:4], elements[5]))
    headers = {"Content-Type": "application/x-ndjson"}
    answer = app.request("PATCH", "/items", content=lines, headers=headers).json()
    assert (answer["accepted"], [one["line"] for one in answer["rejected"]]) == (1, [1, 3])


def test_nothing_accepted_has_no_position(app):
    put(app, {"item": "gone"})
    app.get("/popular", wait_for=app.request("DELETE", "/items/gone").json()["stream_id"])
    assert patched(app, [{"item": "gone"}, {"item": ""}])["stream_id"] is None
    assert patched(app, [])["stream_id"] is None


def test_an_item_that_is_put_again_takes_a_patch_at_once(app):
    put(app, {"item": "back"})
    for _ in range(5):
        app.request("DELETE", "/items/back")
        app.post("/items", {"item": "back", "tags": {"genre": ["x"]}})  # it may still wait for the engine
        answer = patched(app, [{"item": "back", "numbers": {"price": 2}}])
        assert (answer["accepted"], answer["rejected"]) == (1, [])
        assert shown(app, "back", answer["stream_id"]) == ({"genre": ["x"]}, {"price": 2})


def test_a_thousand_patches_are_fast(app):
    tags = {"genre": ["x", "y"], "author": ["somebody"]}
    put(app, *({"item": f"many-{n}", "tags": tags} for n in range(N_ITEMS)))
    started = time.process_time()  # the service runs in this process
    answer = patched(app, [{"item": f"many-{n}", "numbers": {"price": n}} for n in range(N_ITEMS)])
    app.get("/popular", wait_for=answer["stream_id"])
    assert time.process_time() - started < MANY_S
    assert answer["accepted"] == N_ITEMS
    assert shown(app, "many-999", answer["stream_id"]) == (tags, {"price": 999})


def test_a_restart_merges_the_same(tmp_path):
    with serving(tmp_path / "data") as local:
        put(local, *({"item": f"i{n}", "tags": {"genre": ["x"]}} for n in range(3)))
        patched(local, [{"item": f"i{n % 3}", "numbers": {f"n{n}": n}, "tags": {"mood": [str(n)]}} for n in range(9)])
        local.request("DELETE", "/items/i2")
        last = patched(local, [{"item": "i0", "tags": {"mood": None}}])["stream_id"]
        before = [local.get(f"/items/i{n}", wait_for=last).json() for n in range(3)]
    with serving(tmp_path / "data") as local:
        after = [local.get(f"/items/i{n}", wait_for=last).json() for n in range(3)]
    for one in (*before, *after):
        one.pop("as_of", None)
        one.pop("request_id", None)
    assert after == before
    assert before[0]["numbers"] == {"n0": 0, "n3": 3, "n6": 6}
    assert before[0]["tags"] == {"genre": ["x"]}
