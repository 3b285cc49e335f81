"""Threads of the service: essential ones, whose failure ends the service, helpers, and those of calls that wait."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import structlog

from service.base.errors import Overloaded, Unavailable

N_CALL_THREADS = 8
CALL_TIMEOUT_S = 10.0  # seconds, including the wait for a free thread

_Value = TypeVar("_Value")
_log = structlog.get_logger(__name__)


class PartThread(threading.Thread):
    """A thread without which the service must not go on: an exception that ends it is logged and reported.

    All essential threads use this class (tests/test_project.py checks it), so that none can die silently.
    """

    def __init__(self, name: str, run: Callable[[], None], on_failure: Callable[[BaseException], None]) -> None:
        """Prepare; `start` starts it.

        Args:
            name: name in logs and debuggers.
            run: the work of the thread.
            on_failure: called on this thread with the exception that ended `run`; it should end the service.
        """
        super().__init__(name=name, daemon=True)
        self._run_part, self._on_failure = run, on_failure

    def run(self) -> None:
        """Called by `start`."""
        try:
            self._run_part()
        except BaseException as error:
            try:
                _log.critical("a part of the service failed", part=self.name, exc_info=error)
            finally:  # also if it cannot be logged
                self._on_failure(error)


def left() -> list[str]:
    """Names of the parts whose threads have not ended."""
    return [thread.name for thread in threading.enumerate() if isinstance(thread, PartThread)]


def helper(name: str, run: Callable[[], None]) -> threading.Thread:
    """Start a thread whose end the caller watches."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def unheard(error: BaseException) -> None:
    """Ignore a failure, which is already in the log; for a part that is used alone, as in tests."""


class BlockingCalls:
    """Runs calls for requests that wait for Redis or the disk in separate threads. Belongs to the event loop.

    It does not use asyncio's threads: calls that wait for a hung Redis would occupy all of them.
    """

    def __init__(self, max_waiting: int) -> None:
        """`max_waiting`: most calls that may wait; more are refused."""
        self._pool = ThreadPoolExecutor(N_CALL_THREADS, thread_name_prefix="call")
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
            async with asyncio.timeout(CALL_TIMEOUT_S):
                run = contextvars.copy_context().run  # the call knows the request, as its caller does
                return await asyncio.get_running_loop().run_in_executor(self._pool, run, call, *arguments)
        except TimeoutError:
            raise Unavailable(f"Redis or the disk has not answered within {CALL_TIMEOUT_S:g} s") from None
        finally:
            self._n_waiting -= 1

    def close(self) -> None:
        """Drop the waiting calls."""
        self._pool.shutdown(wait=False, cancel_futures=True)
