"""Queries on their way to the engine: how many may wait, and who may still ask when they do."""

import asyncio
import itertools
import time
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from service.base.errors import Overloaded
from service.engine import fairness
from service.engine.fairness import SHARE, Client, Portion
from service.engine.lists.page import Part, PlainLists
from service.engine.pending_queries import Limits, PendingQueries, PendingQuery
from service.engine.queries import Estimate, Recommend
from service.engine.queries.columns import Ids, ListColumns
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


def columns_of(users: Ids) -> ListColumns:
    """A list for each of `users`, of text that is its own."""
    text = b"".join(b"[%b]" % user for user in users.parts())
    ends = array("I", itertools.accumulate(len(user) + 2 for user in users.parts()))
    places, kinds = array("I", range(len(users))), array("I", [0] * len(users))
    return ListColumns(text, ends.tobytes(), places.tobytes(), kinds.tobytes(), [b"}"])


USERS = Ids.of([b"u%d" % n for n in range(6)])
SHARED = Recommend(users=USERS, n=2)
PORTIONS = [Portion(Client("ann"), 3), Portion(Client("bob"), 1), Portion(Client("eve"), 2)]


@pytest.mark.parametrize("waits", [False, True])
def test_a_query_of_several_clients_is_whole_unless_others_wait(waits: bool) -> None:
    async def ask() -> None:
        pending_queries = PendingQueries(LIMITS)
        pending_queries.connect(asyncio.get_running_loop())
        for _ in range(2 * waits):
            pending_queries.put(Recommend(user="u", offset=10**6))
        promise: asyncio.Future[ListColumns] = asyncio.get_running_loop().create_future()
        pending_queries.add(SHARED, PORTIONS, promise)
        assert pending_queries._work._n_undone[Client("ann")] == 3
        await asyncio.sleep(0)
        taken: list[PendingQuery] = []
        while len(pending_queries):
            taken += pending_queries.take(sleep=False)
        own = [pending for pending in taken if isinstance(pending.query, Recommend) and pending.query.n == 2]
        assert sorted(list(pending.portions) for pending in own) == (
            [[one] for one in PORTIONS] if waits else [PORTIONS]
        )
        asked = [pending.query.users for pending in own if isinstance(pending.query, Recommend)]
        pending_queries.answer(own, [columns_of(users) for users in asked if isinstance(users, Ids)])
        bodies = (await promise).bodies(USERS)
        assert [body.split(b"[")[-1] for body in bodies] == [b"u%d]}" % n for n in range(6)]
        assert Client("ann") not in pending_queries._work._n_undone

    asyncio.run(ask())


def test_a_list_that_cannot_be_written_is_the_error_of_its_query_alone() -> None:
    async def ask() -> list[Any]:
        pending_queries = PendingQueries(LIMITS)
        pending_queries.connect(asyncio.get_running_loop())
        futures = [pending_queries.put(Recommend(user="u")) for _ in range(3)]
        await asyncio.sleep(0)
        taken = pending_queries.take(sleep=False)
        broken = PlainLists([Part([0], np.zeros(1, dtype=np.int64), *[None] * 4)])  # type: ignore[arg-type]
        pending_queries.answer(taken, ["first", broken, "last"])
        return await asyncio.gather(*futures, return_exceptions=True)

    first, error, last = asyncio.run(ask())
    assert (first, last) == ("first", "last")
    assert isinstance(error, Exception)


def test_an_error_for_one_of_several_clients_is_the_error_of_their_query() -> None:
    async def ask() -> None:
        pending_queries = PendingQueries(LIMITS)
        pending_queries.connect(asyncio.get_running_loop())
        for _ in range(2):
            pending_queries.put(Recommend(user="u", offset=10**6))
        promise: asyncio.Future[ListColumns] = asyncio.get_running_loop().create_future()
        pending_queries.add(SHARED, PORTIONS, promise)
        await asyncio.sleep(0)
        pending_queries.take(sleep=False)
        assert pending_queries.in_time([], time.monotonic() + 2 * LIMITS.max_wait_s) == []
        await asyncio.wait([promise])
        assert isinstance(promise.exception(), Overloaded)
        await soon(lambda: Client("eve") not in pending_queries._work._n_undone)

    asyncio.run(ask())


def test_a_query_of_several_clients_is_refused_if_one_has_too_many() -> None:
    async def ask() -> None:
        pending_queries = PendingQueries(LIMITS)
        fill(pending_queries, "bob")
        with pytest.raises(Overloaded):
            pending_queries.add(SHARED, PORTIONS, asyncio.get_running_loop().create_future())
        assert Client("ann") not in pending_queries._work._n_undone
        pending_queries.add(SHARED, [PORTIONS[0], PORTIONS[2]], asyncio.get_running_loop().create_future())

    asyncio.run(ask())


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
