"""Requests per second: each address alone, over all processes."""

import os

import pytest

from service.api.door.rate_limit import N_SLOTS, RateLimit
from service.base.errors import TooManyRequests
from service.settings.settings import Settings

READ, OPEN = b"/recommend/u", b"/health/live"


def test_each_address_is_counted_alone() -> None:
    limit = RateLimit(5)
    for _ in range(5):
        limit.check(READ, "a")
    with pytest.raises(TooManyRequests) as caught:
        limit.check(READ, "a")
    assert caught.value.retry_after_s == 1
    limit.check(READ, "b")
    limit.check(OPEN, "a")


def test_tokens_come_back_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("service.api.door.rate_limit.time.monotonic", lambda: now[0])
    limit = RateLimit(2)
    for _ in range(2):
        limit.check(READ, "a")
    for _ in range(3):
        with pytest.raises(TooManyRequests):
            limit.check(READ, "a")
        now[0] += 0.5
        limit.check(READ, "a")
    now[0] += 3600.0
    for _ in range(2):
        limit.check(READ, "a")
    with pytest.raises(TooManyRequests):
        limit.check(READ, "a")


def test_more_addresses_than_slots_replace_the_oldest() -> None:
    limit = RateLimit(0.001)
    for number in range(2 * N_SLOTS):
        limit.check(READ, str(number))
    with pytest.raises(TooManyRequests):
        limit.check(READ, str(2 * N_SLOTS - 1))


def test_a_refusal_tells_how_long_to_wait() -> None:
    limit = RateLimit(0.01)
    limit.check(READ, "a")
    with pytest.raises(TooManyRequests) as caught:
        limit.check(READ, "a")
    wait_s = caught.value.retry_after_s
    assert wait_s is not None
    assert 99 <= wait_s <= 100


def test_it_is_off_by_default() -> None:
    limit = RateLimit(Settings().rate_limit_per_s)
    for _ in range(1000):
        limit.check(READ, "a")


def test_forked_processes_share_the_buckets() -> None:
    limit = RateLimit(0.01)
    child = os.fork()
    if not child:
        limit.check(READ, "a")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(TooManyRequests):
        limit.check(READ, "a")
