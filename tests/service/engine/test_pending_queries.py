"""Queries on their way to the engine: how many may wait, and who may still ask when they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from service.base.errors import Overloaded
from service.engine import fairness
from service.engine.fairness import SHARE, Client
from service.engine.pending_queries import Limits, PendingQueries
from service.engine.queries import Estimate, Recommend
from tests.service.waiting import soon

MOST = 20
LIMITS = Limits(max_batch=256, max_waiting=MOST, max_wait_s=60.0)
QUERY = Estimate(user="u", item="i")


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    token = fairness.current.set(fairness.NOBODY)
    yield
    fairness.current.reset(token)


def fill(pending_queries: PendingQueries, name: str, most: int = 1000) -> int:
    """Ask as a client until that is refused; how often it was not."""
    fairness.current.set(Client(name))
    for n in range(most):
        try:
            pending_queries.put(QUERY)
        except Overloaded:
            return n
    return most


def test_one_client_fills_the_queue_and_others_may_still_ask() -> None:
    async def ask() -> list[int]:
        pending_queries = PendingQueries(LIMITS)
        return [fill(pending_queries, name) for name in ("hog", "ann", "bob", "eve", "zoe", "late")]

    share = MOST // SHARE
    assert asyncio.run(ask()) == [MOST, share, share, share, share, 0]


def test_answered_queries_are_not_counted() -> None:
    async def ask() -> int:
        pending_queries = PendingQueries(LIMITS)
        pending_queries.connect(asyncio.get_running_loop())
        fill(pending_queries, "hog")
        await asyncio.sleep(0)
        taken = pending_queries.take(sleep=False)
        pending_queries.answer(taken, [None] * len(taken))
        await soon(lambda: not pending_queries._work._n_undone)
        return fill(pending_queries, "hog")

    assert asyncio.run(ask()) == MOST


def test_light_queries_overtake_heavy_ones_and_late_ones_are_refused() -> None:
    async def ask() -> None:
        pending_queries = PendingQueries(LIMITS)
        pending_queries.connect(asyncio.get_running_loop())
        heavy = [pending_queries.put(Recommend(user="u", offset=10**6)) for _ in range(5)]
        light = pending_queries.put(QUERY)
        await asyncio.sleep(0)
        first = pending_queries.take(sleep=False)
        assert [pending.promise for pending in first] == [heavy[0]]
        assert pending_queries.take(sleep=False)[0].promise is light
        assert pending_queries.in_time([], time.monotonic() + 2 * LIMITS.max_wait_s) == []
        await asyncio.wait(heavy[1:])
        for future in heavy[1:]:
            assert isinstance(future.exception(), Overloaded)
        assert len(pending_queries) == 0

    asyncio.run(ask())
