import asyncio
import threading
import time

import pytest

from service.base import threads
from service.base.errors import Overloaded, Unavailable
from service.base.threads import N_CALL_THREADS, BlockingCalls

HANGS_S, SOON_S = 200.0, 60.0


def test_hanging_calls_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """So do calls that wait for a free thread."""
    monkeypatch.setattr(threads, "CALL_TIMEOUT_S", 0.2)
    is_over = threading.Event()

    async def check() -> None:
        calls = BlockingCalls(max_waiting=3 * N_CALL_THREADS)
        waiting = [calls.run(is_over.wait, HANGS_S) for _ in range(2 * N_CALL_THREADS)]
        refusals = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(one) for one in refusals} == {Unavailable}
        is_over.set()
        assert await calls.run(lambda: "again") == "again"
        calls.close()

    begun_s = time.monotonic()
    asyncio.run(check())
    assert time.monotonic() - begun_s < SOON_S


def test_calls_beyond_the_limit_are_refused_at_once() -> None:
    is_over = threading.Event()

    async def check() -> None:
        calls = BlockingCalls(max_waiting=2)
        waiting = [asyncio.create_task(calls.run(is_over.wait, HANGS_S)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await calls.run(time.sleep, 0)
        is_over.set()
        assert await asyncio.gather(*waiting) == [True, True]
        calls.close()

    asyncio.run(check())
