"""`Waiters`: requests that wait until an entry has been learned. Belongs to the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from service.errors import NotSeenYet, Overloaded
from service.storage.events import StreamId


class Waiters:
    """Futures by the stream id they wait for."""

    def __init__(self, as_of: Callable[[], StreamId], max_waiting: int) -> None:
        """`as_of()` is the last entry that has been learned; it may move in another thread at any time."""
        self._as_of, self._max_waiting = as_of, max_waiting
        self._waiting: list[tuple[StreamId, asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        """Whether anybody waits; may be asked from any thread."""
        return bool(self._waiting)

    async def wait_for(self, stream_id: StreamId, timeout_s: float) -> None:
        """Return once `stream_id`, or a later one, has been learned; at once if it has been.

        Raises:
            NotSeenYet: not within `timeout_s`.
            Overloaded: `max_waiting` others wait.
        """
        if stream_id <= self._as_of():
            return
        if len(self._waiting) >= self._max_waiting:
            raise Overloaded(f"{self._max_waiting:,} requests wait for ratings already")
        waiter = stream_id, asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            if stream_id > self._as_of():  # again: it may have moved before there was anybody to release
                await asyncio.wait_for(waiter[1], timeout_s)
        except TimeoutError:
            raise NotSeenYet(f"{stream_id} is not seen yet: the service is at {self._as_of()}") from None
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove(waiter)

    def release(self) -> None:
        """Wake everybody whose entry has been learned."""
        as_of = self._as_of()
        for stream_id, future in self._waiting:
            if stream_id <= as_of and not future.done():
                future.set_result(None)
