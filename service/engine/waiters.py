"""`Waiters`: requests that wait until an entry has been learned. Belongs to the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from service.base.errors import Overloaded
from service.engine.errors import NotSeenYet
from service.storage.events import StreamId


class Waiters:
    """Requests with the stream id that each waits for."""

    def __init__(self, as_of: Callable[[], StreamId], max_waiting: int) -> None:
        """`as_of()` returns the last entry that has been learned; another thread may move it at any time."""
        self._as_of, self._max_waiting = as_of, max_waiting
        self._waiting: list[tuple[StreamId, asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        """Whether any request waits. Safe from any thread."""
        return bool(self._waiting)

    async def wait_for(self, stream_id: StreamId, timeout_s: float) -> None:
        """Return when `stream_id` or a later entry has been learned.

        Raises:
            NotSeenYet: not within `timeout_s`.
            Overloaded: `max_waiting` requests wait already.
        """
        if stream_id <= self._as_of():
            return
        if len(self._waiting) >= self._max_waiting:
            raise Overloaded(f"{self._max_waiting:,} requests are already waiting for ratings")
        waiter = stream_id, asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            if stream_id > self._as_of():  # check again: it may have moved before the waiter was in the list
                await asyncio.wait_for(waiter[1], timeout_s)
        except TimeoutError:
            raise NotSeenYet(f"{stream_id} is not seen yet: the service is at {self._as_of()}") from None
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove(waiter)

    def release(self) -> None:
        """Wake every request whose entry has been learned."""
        as_of = self._as_of()
        for stream_id, future in self._waiting:
            if stream_id <= as_of and not future.done():
                future.set_result(None)
