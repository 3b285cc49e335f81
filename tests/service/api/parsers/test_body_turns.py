"""Large bodies take turns, by client and by bytes."""

import asyncio

import pytest

from service.api.parsers.body_turns import BYTES_PER_S, LARGE_BYTES, MAX_WAITING_BYTES, BodyTurns
from service.base.errors import Overloaded
from service.engine import fairness
from service.engine.fairness import Client

MIB = 1 << 20


def taking(turns: BodyTurns, client: str, n_bytes: int, order: list[str]) -> asyncio.Task[None]:
    async def take() -> None:
        fairness.current.set(Client(client))
        await turns.take(n_bytes)
        order.append(client)

    return asyncio.create_task(take())


def test_who_sends_much_does_not_hold_up_who_sends_one() -> None:
    async def play() -> list[str]:
        turns, order = BodyTurns(), list[str]()
        busy = [taking(turns, "busy", MIB, order) for _ in range(8)]
        await asyncio.sleep(0)
        await taking(turns, "other", MIB, order)
        await asyncio.gather(*busy)
        return order

    assert asyncio.run(play()).index("other") <= 2


def test_the_loop_has_time_for_others_between_two_bodies() -> None:
    async def play() -> float:
        turns, loop = BodyTurns(), asyncio.get_running_loop()
        started = loop.time()
        await asyncio.gather(*(turns.take(MIB) for _ in range(4)))
        return loop.time() - started

    assert asyncio.run(play()) >= 3 * MIB / BYTES_PER_S - 0.01


def test_short_bodies_do_not_wait() -> None:
    async def play() -> bool:
        turns, order = BodyTurns(), list[str]()
        busy = [taking(turns, "busy", MIB, order) for _ in range(4)]
        await asyncio.sleep(0)
        await taking(turns, "short", LARGE_BYTES, order)
        is_first = "busy" not in order[1:2]
        await asyncio.gather(*busy)
        return is_first

    assert asyncio.run(play())


def test_who_leaves_frees_the_turn_and_who_would_fill_the_memory_is_refused() -> None:
    async def play() -> list[str]:
        turns, order = BodyTurns(), list[str]()
        left = [taking(turns, "left", MIB, order) for _ in range(MAX_WAITING_BYTES // MIB)]
        await asyncio.sleep(0)
        fairness.current.set(Client("refused"))
        await turns.take(1)
        with pytest.raises(Overloaded):
            await turns.take(MAX_WAITING_BYTES)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        order.clear()
        await taking(turns, "next", MIB, order)
        return order

    assert asyncio.run(asyncio.wait_for(play(), 20)) == ["next"]
