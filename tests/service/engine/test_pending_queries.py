"""Queries on their way to the engine: how many may wait, and who may still ask when they do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from service.engine import fairness
from service.engine.fairness import Client
from service.engine.pending_queries import SHARE, Limits, Questions
from service.engine.queries import Estimate, Recommend
from service.errors import Overloaded

MOST = 20
LIMITS = Limits(max_batch=256, max_waiting=MOST, max_wait_s=5.0)
QUERY = Estimate(user="u", item="i")


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    token = fairness.current.set(fairness.NOBODY)
    yield
    fairness.current.reset(token)


def fill(questions: Questions, name: str, most: int = 1000) -> int:
    """Ask as a client until that is refused; how often it was not."""
    fairness.current.set(Client(name))
    for n in range(most):
        try:
            questions.put(QUERY)
        except Overloaded:
            return n
    return most


def test_one_client_fills_the_queue_and_others_may_still_ask() -> None:
    async def ask() -> list[int]:
        questions = Questions(LIMITS)
        return [fill(questions, name) for name in ("hog", "ann", "bob", "eve", "zoe", "late")]

    share = MOST // SHARE
    assert asyncio.run(ask()) == [MOST, share, share, share, share, 0]


def test_what_is_answered_counts_no_more() -> None:
    async def ask() -> int:
        questions = Questions(LIMITS)
        questions.connect(asyncio.get_running_loop())
        fill(questions, "hog")
        await asyncio.sleep(0)
        taken = questions.take(sleep=False)
        questions.answer(taken, [None] * len(taken))
        await asyncio.sleep(0.01)
        assert not questions._n_unanswered
        return fill(questions, "hog")

    assert asyncio.run(ask()) == MOST


def test_light_queries_overtake_heavy_ones_and_late_ones_are_refused() -> None:
    async def ask() -> None:
        questions = Questions(LIMITS._replace(max_wait_s=0.05))
        questions.connect(asyncio.get_running_loop())
        heavy = [questions.put(Recommend(user="u", offset=10**6)) for _ in range(5)]
        light = questions.put(QUERY)
        await asyncio.sleep(0)
        first = questions.take(sleep=False)
        assert [question.future for question in first] == [heavy[0]]
        assert questions.take(sleep=False)[0].future is light
        await asyncio.sleep(0.1)
        assert questions.in_time([], asyncio.get_running_loop().time() + 1e-3) == []
        await asyncio.sleep(0.01)
        for future in heavy[1:]:
            assert isinstance(future.exception(), Overloaded)
        assert len(questions) == 0

    asyncio.run(ask())
