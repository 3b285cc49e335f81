"""`BlockingCalls`: runs calls that wait for Redis or the disk in separate threads."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from service.base.errors import Overloaded, Unavailable

N_THREADS = 8
TIMEOUT_S = 10.0  # seconds, including the wait for a free thread

_Value = TypeVar("_Value")


class BlockingCalls:
    """Runs calls for requests. Belongs to the event loop.

    It does not use asyncio's threads: calls that wait for a hung Redis would occupy all of them.
    """

    def __init__(self, max_waiting: int) -> None:
        """`max_waiting`: most calls that may wait; more are refused."""
        self._pool = ThreadPoolExecutor(N_THREADS, thread_name_prefix="call")
        self._max_waiting, self._n_waiting = max_waiting, 0

    async def run(self, call: Callable[..., _Value], *arguments: Any) -> _Value:
        """Run `call` in a thread; return its value or raise its exception.

        Raises:
            Overloaded: too many calls wait.
            Unavailable: it has not returned within ten seconds; its effect is unknown.
        """
        if self._n_waiting >= self._max_waiting:
            raise Overloaded(f"{self._max_waiting:,} requests are already waiting for Redis or the disk")
        self._n_waiting += 1
        try:
            async with asyncio.timeout(TIMEOUT_S):
                run = contextvars.copy_context().run  # the call knows the request, as its caller does
                return await asyncio.get_running_loop().run_in_executor(self._pool, run, call, *arguments)
        except TimeoutError:
            raise Unavailable(f"Redis or the disk has not answered within {TIMEOUT_S:g} s") from None
        finally:
            self._n_waiting -= 1

    def close(self) -> None:
        """Drop the waiting calls."""
        self._pool.shutdown(wait=False, cancel_futures=True)
