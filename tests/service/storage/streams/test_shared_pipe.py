"""Time-outs of calls if Redis accepts connections and does not answer; `verify` is the first request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from service.base.errors import StreamUnavailable
from service.storage.streams import shared_pipe
from service.storage.streams.append_pipe import RedisPipe
from service.storage.streams.shared_pipe import SharedPipe, Verify

N_CALLS = 5
SOON_S = 2.0  # on a busy machine
HANGS_S = 20.0


def in_thread(check: Callable[[], None]) -> Verify:
    async def verify(pipe: RedisPipe) -> None:
        assert pipe.is_open
        await asyncio.to_thread(check)

    return verify


async def seconds_of_refusal(pipe: SharedPipe) -> float:
    begun_s = time.monotonic()
    with pytest.raises(StreamUnavailable):
        await pipe.call("PING")
    return time.monotonic() - begun_s


def test_while_one_connects_again_all_others_are_refused_at_once(redis_url: str) -> None:
    hanging, is_over = threading.Event(), threading.Event()

    def verify() -> None:
        if hanging.is_set():
            is_over.wait(HANGS_S)
        raise StreamUnavailable("Redis has not answered")

    async def check() -> list[float]:
        pipe = SharedPipe(redis_url, in_thread(verify))
        await seconds_of_refusal(pipe)
        hanging.set()
        first = asyncio.create_task(seconds_of_refusal(pipe))
        await asyncio.sleep(0.1)
        took_s = await asyncio.gather(*(seconds_of_refusal(pipe) for _ in range(N_CALLS)))
        is_over.set()
        await first
        pipe.close()
        return took_s

    assert max(asyncio.run(check())) < SOON_S


def test_the_time_of_a_call_counts_from_before_it_connects(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_pipe, "CALL_TIMEOUT_S", 0.2)
    is_over = threading.Event()

    def verify() -> None:
        is_over.wait(HANGS_S)

    async def check() -> float:
        pipe = SharedPipe(redis_url, in_thread(verify))
        took_s = await seconds_of_refusal(pipe)
        is_over.set()
        pipe.close()
        return took_s

    assert 0.2 <= asyncio.run(check()) < SOON_S
