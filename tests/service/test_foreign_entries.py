"""Entries that another producer adds to the stream by hand: the service goes on, and starts again."""

from __future__ import annotations

import json
from pathlib import Path

import redis

from service.storage.streams.redis_server import url_of
from tests.service.local import Local, serving
from tests.service.waiting import eventually

EVENT = {"user": "u", "item": "i", "type": "view"}
ARM = {"model": "als", "share": 100}
FOREIGN: list[tuple[str, object]] = [
    ("events", [EVENT | {"recommendation_id": "abc"}]),
    ("events", [EVENT | {"recommendation_id": "ä"}]),
    ("events", [EVENT | {"recommendation_id": "WyJlIl0"}]),
    ("events", [EVENT | {"type": "\ud800"}]),
    ("events", [EVENT | {"event_id": "\ud800"}]),
    ("document", {"kind": "experiment", "name": "e", "body": '{"arms":[],"salt":""}'}),
    ("document", {"kind": "experiment", "name": "e", "body": '{"arms":[{"model":"als","share":-1}],"salt":""}'}),
    ("document", {"kind": "scenario", "name": "s", "body": "[" * 200_000}),
    ("document", {"kind": "scenario", "name": "s", "body": '"\ud800"'}),
    ("ratings", [{"user": "u", "item": "\ud800", "rating": 1}]),
    ("ratings", {"user": "u", "item": "i", "rating": 1}),
    ("items", [{"item": "i", "numbers": {"price": 1e300}}]),
    ("items", [{"item": "i", "tags": {"\ud800": ["a"]}}]),
    ("merge", {"user": "u", "into": "u"}),
    ("unmark", {"name": "", "owner": None}),
    ("unmark", {"name": "q"}),
]
ODD: list[tuple[str, object]] = [
    ("ratings", [{"user": "t", "item": "i", "rating": 1, "timestamp": 1e300}]),
    ("ratings", [{"user": "t", "item": "j", "rating": 1, "timestamp": -1e300}]),
    ("ratings", []),
    ("events", [{"user": "t", "item": "i", "type": "no-such-type", "value": -1e6, "event_id": "ü" * 128}]),
    ("items", [{"item": "i", "published": 1e11, "until": -1e11, "numbers": {"price": 1e38}}]),
    ("items", [{"item": "i", "op": "patch", "embedding": [1.0]}, {"item": "j", "embedding": [1.0, 2.0]}]),
    ("document", {"kind": "scenario", "name": "s", "body": '[{"n":1}]'}),
    ("unmark", {"name": "never heard of", "owner": None}),
]


def asked(app: Local) -> dict[str, int]:
    """The statuses of all kinds of reads."""
    paths = (
        "/health/ready", "/popular", "/popular?half_life=1d", "/latest", "/recommend/t", "/recommend/t?scenario=s",
        "/users/t/ratings", "/items/i", "/items?limit=1", "/items/j/ratings", "/scenarios", "/experiments",
        "/admin/stats", "/admin/ratings", "/admin/sources", "/export/ratings", "/export/events", "/export/items",
    )  # fmt: skip
    return {path: app.get(path).status_code for path in paths}


def test_the_service_goes_on_and_starts_again_after_entries_of_another_producer(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as app:
        app.rate(("t", "i", 3.0), ("t", "j", 4.0))
        with redis.Redis.from_url(url_of(app.runtime.settings)) as server:
            bad = [server.xadd("nearfield:ratings", {"v": "1", name: json.dumps(value)}) for name, value in FOREIGN]
            for name, value in ODD:
                server.xadd("nearfield:ratings", {"v": "1", name: json.dumps(value)})
            position = app.rate(("after", "i", 5.0))
            assert app.get("/users/after/ratings", wait_for=position).json()["n_ratings"] == 1
            eventually(lambda: server.xlen("nearfield:rejected") == len(bad))
            assert [one for one, _ in server.xrange("nearfield:rejected")] == bad
        running = asked(app)
        assert 500 not in running.values()
        assert running["/health/ready"] == 200
    with serving(data) as app:
        assert asked(app) == running
        assert app.get("/users/after/ratings").json()["n_ratings"] == 1
