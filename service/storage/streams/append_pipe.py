"""`RedisPipe`: one connection of the event loop that pipelines the commands of many requests.

The general asyncio client takes about 350 µs of CPU per command and may send a command twice after a failure. A stream
append must be cheap and must never be sent twice. A `RedisPipe` writes each command once, at once, and Redis replies in
the order of sending.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis
from redis.connection import parse_url

from service.base.errors import StreamUnavailable

CONNECT_TIMEOUT_S = 2.0
REPLY_TIMEOUT_S = 5.0


class RedisPipe(asyncio.Protocol):
    """A pipelined connection. Any failure closes it for good; then open another one."""

    def __init__(self, on_lost: Callable[[], None] = lambda: None) -> None:
        """`on_lost`: called when the connection has ended."""
        self._on_lost = on_lost
        self._replies = hiredis.Reader()
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._transport: asyncio.Transport | None = None
        self._watchdog: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, url: str, on_lost: Callable[[], None] = lambda: None) -> RedisPipe:
        """Connect, authenticate and select the database of the URL; `on_lost`: called when the connection has ended.

        Raises:
            StreamUnavailable: no connection within two seconds, or the server refuses.
        """
        target: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                pipe = await cls._connect(url, target, on_lost)
                try:
                    await pipe._log_in(target)
                except BaseException:
                    pipe.close()
                    raise
        except (OSError, TimeoutError) as error:
            raise StreamUnavailable(f"Redis cannot be reached: {error or 'timed out'}") from error
        return pipe

    @classmethod
    async def _connect(cls, url: str, target: dict[str, Any], on_lost: Callable[[], None]) -> RedisPipe:
        loop, make = asyncio.get_running_loop(), functools.partial(cls, on_lost)
        if "path" in target:
            return (await loop.create_unix_connection(make, target["path"]))[1]
        tls = ssl.create_default_context(cafile=target.get("ssl_ca_certs")) if url.startswith("rediss:") else None
        address = target.get("host", "localhost"), target.get("port", 6379)
        return (await loop.create_connection(make, *address, ssl=tls))[1]

    async def _log_in(self, target: dict[str, Any]) -> None:
        if "password" in target:
            user = (target["username"],) if "username" in target else ()
            await self.call("AUTH", *user, target["password"])
        if target.get("db"):
            await self.call("SELECT", str(target["db"]))

    @property
    def n_waiting(self) -> int:
        """Commands that wait for their reply."""
        return len(self._waiting)

    @property
    def is_open(self) -> bool:
        """Whether a command can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def call(self, name: str, *arguments: bytes | str) -> Any:
        """Send one command and await its reply.

        Raises:
            StreamUnavailable: the server refused the command, or the connection broke or was silent for five seconds.
                In the second case it is unknown whether Redis executed the command.
        """
        if self._transport is None or self._transport.is_closing():
            raise StreamUnavailable("Redis connection is closed")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((time.monotonic() + REPLY_TIMEOUT_S, future))
        self._transport.write(hiredis.pack_command(cast("Any", (name, *arguments))))
        if self._watchdog is None:
            self._watch()
        reply = await future
        if isinstance(reply, hiredis.ReplyError):
            raise StreamUnavailable(f"Redis refused {name}: {reply}")
        return reply

    def close(self) -> None:
        """Close the connection; commands that still wait fail."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        """Called by asyncio: give each complete reply to the oldest waiting command."""
        self._replies.feed(data)
        while (reply := self._replies.gets()) is not False:
            _, future = self._waiting.popleft()
            if not future.done():  # its request may have been cancelled
                future.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: fail all waiting commands."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(StreamUnavailable(f"Redis connection lost: {exc or 'closed'}"))
        self._waiting.clear()
        self._on_lost()

    def _watch(self) -> None:
        """Check the oldest command for a timeout. One timer suffices, because replies come in order."""
        now = time.monotonic()
        if not self._waiting:
            self._watchdog = None
        elif self._waiting[0][0] <= now:
            self.close()
        else:
            self._watchdog = asyncio.get_running_loop().call_later(self._waiting[0][0] - now, self._watch)
