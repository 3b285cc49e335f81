"""`SharedPipe`: the one connection for all writes of a process, which the next caller opens again after a failure.

While Redis hangs, one caller tries to connect and the others are refused at once. If each tried in turn, the last of 24
callers would wait for a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from service.base.errors import ServiceError, StreamUnavailable
from service.storage.streams.append_pipe import RedisPipe

CALL_TIMEOUT_S = 5.0  # seconds, including the time to connect
Verify = Callable[[RedisPipe], Awaitable[None]]


class SharedPipe:
    """Calls of many requests on one connection. Belongs to one event loop.

    Attributes:
        n_waiting: calls that wait for the connection or for their reply.
    """

    def __init__(self, url: str, verify: Verify, on_lost: Callable[[], None] = lambda: None) -> None:
        """Prepare; nothing connects yet.

        Args:
            url: URL of the server.
            verify: called with each new connection; if it raises, the waiting calls fail with its error.
            on_lost: called when a connection has ended.
        """
        self._url, self._verify, self._on_lost = url, verify, on_lost
        self._pipe: RedisPipe | None = None
        self._opening: asyncio.Task[RedisPipe] | None = None
        self._failure: ServiceError | None = None  # error of the last attempt to connect
        self.n_waiting = 0

    async def call(self, name: str, *arguments: bytes | str) -> Any:
        """Send one command, once, and await its reply.

        Raises:
            StreamUnavailable: Redis is gone, refuses, or has not answered within five seconds. In the last case it is
                unknown whether Redis executed the command.
            ServiceError: the error of `verify`.
        """
        self.n_waiting += 1
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                pipe = await self._opened()
                return await pipe.call(name, *arguments)
        except TimeoutError:
            raise StreamUnavailable(f"Redis has not answered within {CALL_TIMEOUT_S:g} s") from None
        finally:
            self.n_waiting -= 1

    def reconnect(self) -> None:
        """Close the present connection; calls on it fail, and the next one opens a new one."""
        if self._pipe is not None and self._pipe.is_open:
            self._pipe.close()

    def close(self) -> None:
        """Close the connection; calls that still wait fail."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
        self.reconnect()

    async def _opened(self) -> RedisPipe:
        if self._pipe is not None and self._pipe.is_open:
            return self._pipe
        is_opening = self._opening is not None and not self._opening.done()
        if self._failure is not None and is_opening:
            raise type(self._failure)(str(self._failure))
        if self._opening is None or not is_opening:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(_retrieve_exception)
        opening = self._opening
        await asyncio.wait({opening})  # a caller that gives up must not end the attempt for the others
        if opening.cancelled():
            raise StreamUnavailable("Redis connection is closed")
        return opening.result()

    async def _open(self) -> RedisPipe:
        try:
            pipe = await RedisPipe.open(self._url, self._on_lost)
            try:
                await self._verify(pipe)
            except BaseException:
                pipe.close()
                raise
        except ServiceError as error:
            self._failure = error
            raise
        self._pipe, self._failure = pipe, None
        return pipe


def _retrieve_exception(opening: asyncio.Task[RedisPipe]) -> None:
    """Retrieve the exception of an attempt that no caller awaits any more: otherwise asyncio logs a warning."""
    if not opening.cancelled():
        opening.exception()
