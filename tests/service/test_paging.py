"""Cursors and merged users over HTTP, on two replicas that are real processes; one of them has a front."""

import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from service.cli import synthetic
from service.storage.streams.redis_server import RedisServer
from tests.service.process import Service
from tests.service.waiting import eventually, learned

DRAWN = synthetic.planted(0, 60, 40)
USER, ITEM = DRAWN.viewer_id(0), DRAWN.item_id(3)
Replicas = tuple[Service, Service]


@pytest.fixture(scope="module")
def replicas(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    data = tmp_path_factory.mktemp("paging") / "data"
    rows = zip(DRAWN.viewers.tolist(), DRAWN.items.tolist(), DRAWN.ratings.tolist(), strict=True)
    first = Service(data, redis=redis_server.url, fronts=1)
    second = Service(data, redis=redis_server.url, worker=False, fronts=2)
    try:
        first.rate(*[(DRAWN.viewer_id(user), DRAWN.item_id(item), rating) for user, item, rating in rows][:1000])
        train(first, second)
        yield first, second
    finally:
        for service in (first, second):
            service.kill()


def train(*services: Service) -> None:
    version = services[0].train("als-implicit", n_epochs=2, n_factors=8)
    for service in services:
        eventually(functools.partial(serves, service, version))


def serves(service: Service, version: str) -> bool:
    return bool(service.get(f"/recommend/{USER}").json()["model_version"] == version)


def names(answer: dict[str, Any]) -> list[str]:
    lines = answer["neighbors"] if "neighbors" in answer else answer["items"]
    return [one.get("item") or one["user"] for one in lines]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"/recommend/{USER}", None),
        ("/recommend", {"ratings": [{"item": ITEM, "rating": 5}]}),
        (f"/users/{USER}/neighbors", None),
    ],
)
def test_a_list_goes_on_on_any_replica(replicas: Replicas, path: str, body: dict[str, Any] | None) -> None:
    shown: list[str] = []
    cursor: str | None = ""
    for step in range(50):
        service = replicas[step % 2]
        seen = service.rate((f"meanwhile {path} {step}", DRAWN.item_id(step % 40), 5.0))
        asked: dict[str, Any] = {"n": 9, "cursor": cursor, "wait_for": seen}
        if body is None:
            response = service.get(path, **asked)
        else:
            response = learned(functools.partial(service.client.post, path, json=body | asked))
        assert response.status_code == 200, response.text
        page = response.json()
        shown += names(page)
        cursor = page["next"]
        if cursor is None:
            break
    assert cursor is None
    assert step >= 2
    assert len(shown) == len(set(shown))
    plain = replicas[0].get(path, n=100) if body is None else replicas[0].client.post(path, json=body | {"n": 100})
    missed = set(names(plain.json())) - set(shown)
    assert not {one for one in missed if not one.startswith("meanwhile")}
    assert "next" not in plain.json()


def test_an_anonymous_user_becomes_part_of_a_known_one(replicas: Replicas) -> None:
    """The newer rating of an item counts, events add up, and all of it is one entry."""
    first, second = replicas
    a, b, c = (DRAWN.item_id(n) for n in (5, 6, 7))
    first.rate(("anon", a, 1.0), ("known", a, 2.0), ("known", b, 3.0))
    seen = first.rate(("anon", b, 4.0), ("anon", c, 5.0))
    body = {"from": "anon", "wait_for": seen}
    answer = learned(lambda: second.client.post("/admin/users/known/merge", json=body))
    assert answer.status_code == 202, answer.text
    stored = first.get("/users/known/ratings", wait_for=answer.json()["stream_id"]).json()["ratings"]
    assert {one["item"]: one["rating"] for one in stored} == {a: 2.0, b: 4.0, c: 5.0}
    assert first.get("/users/anon/ratings").status_code == 404
    second.api.wait_for(answer.json()["stream_id"])
    for body, status in (({"from": "anon"}, 404), ({"from": "known"}, 422), ({}, 422)):
        assert second.client.post("/admin/users/known/merge", json=body).status_code == status
    sent = [
        {"user": user, "item": item, "type": "view", "event_id": "1"} for user, item in (("known", a), ("eventful", c))
    ]
    sent += [{"user": "eventful", "item": DRAWN.item_id(8), "type": "impression"}]
    seen = first.api.send_events(sent)["stream_id"]
    first.api.wait_for(seen)
    answer = first.client.post("/admin/users/known/merge", json={"from": "eventful"})
    again = first.api.send_events([sent[1] | {"user": "known", "value": 500}])["stream_id"]  # a repetition
    for service in replicas:
        service.settle(again)
    for service in replicas:
        whole = service.get("/recommend/known", n=100).json()
        assert not {a, b, c, DRAWN.item_id(8)} & set(names(whole))
        assert whole["items"] == first.get("/recommend/known", n=100).json()["items"]
    lines = [json.loads(line) for line in first.get("/admin/export", what="events").text.splitlines()]
    assert {line["user"] for line in lines} == {"known"}


def test_a_cursor_outlives_a_restart_and_ends_with_its_model(replicas: Replicas) -> None:
    """Comes last: it replaces the model."""
    first, second = replicas
    page = first.get(f"/recommend/{USER}", n=4, cursor="").json()
    merged = first.get("/recommend/known", n=100).json()["items"]
    assert second.stop() == 0
    second.start()
    eventually(lambda: second.get(f"/recommend/{USER}", n=4, cursor=page["next"]).status_code == 200)
    assert not set(names(second.get(f"/recommend/{USER}", n=4, cursor=page["next"]).json())) & set(names(page))
    assert second.get("/recommend/known", n=100).json()["items"] == merged
    train(first, second)
    for service in replicas:
        response = service.get(f"/recommend/{USER}", n=4, cursor=page["next"])
        assert (response.status_code, response.json()["type"]) == (410, "urn:nearfield:problem:gone")
