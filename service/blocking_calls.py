"""`BlockingCalls`: calls that wait for Redis or the disk, in a few threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from service.errors import Overloaded, Unavailable

N_THREADS = 8
TIMEOUT_S = 10.0  # with the time until a thread is free

_Value = TypeVar("_Value")


class BlockingCalls:
    """Runs calls for requests. Belongs to the event loop.

    The threads are not those of asyncio: calls that wait for a Redis that hangs would take these from whatever else
    needs one.
    """

    def __init__(self, max_waiting: int) -> None:
        """`max_waiting`: calls, beyond which more are refused."""
        self._pool = ThreadPoolExecutor(N_THREADS, thread_name_prefix="call")
        self._max_waiting, self._n_waiting = max_waiting, 0

    async def run(self, call: Callable[..., _Value], *arguments: Any) -> _Value:
        """What `call` returns; what it raises is raised here.

        Raises:
            Overloaded: too many calls wait.
            Unavailable: it has not returned within ten seconds; nobody knows what it has done.
        """
        if self._n_waiting >= self._max_waiting:
            raise Overloaded(f"{self._max_waiting:,} requests wait for Redis or the disk already")
        self._n_waiting += 1
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)
        except TimeoutError:
            raise Unavailable(f"Redis or the disk has not answered within {TIMEOUT_S:g} s") from None
        finally:
            self._n_waiting -= 1

    def close(self) -> None:
        """Drop the calls that wait."""
        self._pool.shutdown(wait=False, cancel_futures=True)
