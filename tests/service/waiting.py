"""Waiting for what other threads and processes do."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

Value = TypeVar("Value")


SHORTEST_S, LONGEST_S, GROWTH = 0.01, 0.1, 1.1  # pauses: what takes long is looked at seldom, for looks delay it


def eventually(condition: Callable[[], Value | None], timeout_s: float = 200.0) -> Value:
    """The first truthy value of `condition()`; fails after `timeout_s`."""
    deadline, pause_s = time.monotonic() + timeout_s, SHORTEST_S
    while not (value := condition()):
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(pause_s)
        pause_s = min(GROWTH * pause_s, LONGEST_S)
    return value


def learned(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer of `ask()`, which is asked again while the entry that it waits for is not seen yet.

    A request waits for two seconds, and a busy machine may need longer.
    """

    def answer() -> httpx.Response | None:
        found = ask()
        return None if found.status_code == 503 and found.json()["type"].endswith(":not-seen-yet") else found

    return eventually(answer)


def quickest_s(measure: Callable[[], float], enough_s: float, n: int = 5) -> float:
    """The first of `n` measurements that is below `enough_s`, else the least: what runs beside a test adds to them."""
    least_s = measure()
    for _ in range(n - 1):
        if least_s < enough_s:
            break
        least_s = min(least_s, measure())
    return least_s


async def soon(condition: Callable[[], Value | None], timeout_s: float = 200.0) -> Value:
    """`eventually` for code on an event loop, which goes on meanwhile."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "not within the time"
        await asyncio.sleep(0.005)
    return value
