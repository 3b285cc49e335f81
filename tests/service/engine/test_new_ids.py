"""A key may add a limited number of new users and items an hour, and rate known ones without limit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.engine import fairness
from service.engine.fairness import Client
from service.engine.new_ids import MAX_KEYS, NewIds, TooManyNewIds, TooManyNewNames
from tests.service.local import serving
from tests.service.waiting import eventually

PER_HOUR = 10


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [1000.0]
    monkeypatch.setattr("service.engine.new_ids.time.monotonic", lambda: now[0])
    token = fairness.current.set(Client("1.2.3.4", b"key"))
    yield now
    fairness.current.reset(token)


def limit() -> NewIds:
    return NewIds(PER_HOUR, {"ann"}.__contains__, {"film"}.__contains__)


def users(n_users: int, first: int = 0) -> list[str]:
    return [f"new-{n}" for n in range(first, first + n_users)]


def test_known_ids_cost_nothing(clock: list[float]) -> None:
    ids = limit()
    for _ in range(100):
        ids.check(["ann"], ["film"])


def test_new_users_and_new_items_count(clock: list[float]) -> None:
    ids = limit()
    for n in range(5):
        ids.check([f"user-{n}"], [f"item-{n}"])
    with pytest.raises(TooManyNewIds):
        ids.check(["user"], ["film"])


def test_a_refusal_gives_the_time_to_retry_and_adds_nothing(clock: list[float]) -> None:
    ids = limit()
    ids.check(users(8), ["film"])
    with pytest.raises(TooManyNewIds, match="3 new users or items") as caught:
        ids.check(users(3, 8), ["film"])
    assert caught.value.retry_after_s == 360
    ids.check(users(2, 8), ["film"])
    clock[0] += 360 * 3
    ids.check(users(3, 20), ["film"])


def test_a_request_beyond_an_hour_passes_when_the_bucket_is_full_and_is_paid_for(clock: list[float]) -> None:
    ids = limit()
    ids.check(users(3 * PER_HOUR), ["film"])
    with pytest.raises(TooManyNewIds) as caught:
        ids.check(users(1, 100), ["film"])
    assert caught.value.retry_after_s == pytest.approx((2 * PER_HOUR + 1) * 360)


def test_keys_count_apart_and_few_are_remembered(clock: list[float]) -> None:
    ids = limit()
    ids.check(users(PER_HOUR), ["film"])
    for n in range(2 * MAX_KEYS):
        fairness.current.set(Client("1.2.3.4", b"key-%d" % n))
        ids.check(users(PER_HOUR), ["film"])
    assert len(ids._buckets) == MAX_KEYS


def test_a_service_refuses_new_ids_beyond_the_limit_and_takes_known_ones(tmp_path: Path) -> None:
    with serving(tmp_path / "data", worker=False, max_new_ids_per_hour=4) as local:
        local.rate(("ann", "a", 5.0), ("bob", "a", 4.0))
        eventually(lambda: local.get("/users/bob/ratings").status_code == 200)
        local.rate(("ann", "b", 5.0))
        eventually(lambda: len(local.get("/users/ann/ratings").json()["ratings"]) == 2)
        refused = local.post(
            "/ratings", [{"user": "ann", "item": "b", "rating": 1}, {"user": "eve", "item": "b", "rating": 1}]
        )
        assert refused.status_code == 429
        assert refused.json()["type"].endswith("too-many-new-ids")
        assert 0 < int(refused.headers["Retry-After"]) <= 900
        assert local.request("DELETE", "/ratings/eve/b").status_code == 429
        local.rate(("ann", "b", 1.0))


def test_new_names_of_a_key_are_bounded_and_leave_room_for_other_keys(clock: list[float]) -> None:
    names = NewIds(None, set[str]().__contains__, set[str]().__contains__, PER_HOUR)
    with pytest.raises(
        TooManyNewNames, match="900 new names of tags and numbers, and this key may introduce 10"
    ) as told:
        names.check_names(900)
    assert told.value.retry_after_s == 3600
    names.check_names(7)
    with pytest.raises(TooManyNewNames):
        names.check_names(4)
    names.check_names(0)
    clock[0] += 360.0
    names.check_names(4)
    fairness.current.set(Client("1.2.3.4", b"another key"))
    names.check_names(PER_HOUR)


def test_names_are_bounded_by_settings_and_key_over_http(tmp_path: Path) -> None:
    with serving(tmp_path / "data", max_names=5, max_new_names_per_hour=3) as app:

        def put(*names: str) -> tuple[int, int]:
            answer = app.post("/items", [{"item": "i", "numbers": dict.fromkeys(names, 1.0)}])
            return answer.status_code, answer.json().get("accepted", 0)

        assert put("a", "b", "c", "d") == (429, 0)
        assert (
            app.post("/items", [{"item": "i", "numbers": {"a": 1}}, {"item": "j", "tags": {"t": ["x"]}}]).status_code
            == 202
        )
        eventually(lambda: app.get("/items/j").status_code == 200)
        assert put("a") == (202, 1)
        assert put("b", "c") == (429, 0)
        assert app.request("PATCH", "/items/i", json={"numbers": {"b": 1, "c": 1}}).status_code == 429
        rejected = app.post("/items", [{"item": "k", "numbers": dict.fromkeys("abcdef", 1.0)}]).json()["rejected"]
        assert rejected[0]["error"].startswith("Invalid names: expected at most 3 further ones of all items")
