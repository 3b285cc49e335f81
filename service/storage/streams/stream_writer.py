"""`StreamWriter`: appends entries to the stream, on one connection for all requests of a process.

The general asyncio client takes about 350 µs of CPU per command and may send a command twice after a failure. An append
must be cheap and must never be sent twice. So a `Connection` writes each command once, at once, and Redis replies in
the order of sending.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, cast

import hiredis
from redis.connection import parse_url

from service.base.errors import ServiceError
from service.settings.keyspace import DEFAULT, Keyspace
from service.storage.errors import StreamUnavailable
from service.storage.events import ZERO, Fields, StreamId
from service.storage.streams.redis_client import id_of
from service.storage.streams.tail import Tail

CONNECT_TIMEOUT_S = 2.0
REPLY_TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 5.0  # seconds, including the time to connect
Verify = Callable[[str], Awaitable[None]]


class StreamWriter:
    """The only way to write ratings to Redis. Belongs to one event loop.

    After a failure, such as no reply, the next caller connects again. While that attempt is under way, all others are
    refused at once: if each tried in turn while Redis hangs, the last of 24 callers would wait for a minute.

    Attributes:
        n_waiting: calls that wait for the connection or for their reply.
    """

    def __init__(
        self,
        url: str,
        verify: Verify,
        tail: Tail,
        keys: Keyspace = DEFAULT,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; nothing connects yet.

        Args:
            url: redis://, rediss:// or unix://.
            verify: called before the first entry of each new connection, with the id that its server has drawn at its
                start, or "" if the server refuses to tell; if it raises, nothing is written.
            tail: gets each entry that was written.
            keys: of the data set.
            on_lost: called when a connection has ended.
        """
        self._url, self._verify, self._on_lost = url, verify, on_lost
        self._tail, self._keys, self._last = tail, keys, ZERO
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._failure: ServiceError | None = None  # error of the last attempt to connect
        self.n_waiting = 0

    async def append(self, fields: Fields) -> StreamId:
        """Append one entry, once; on return it is as durable as the server's fsync policy makes it.

        Raises:
            StreamUnavailable: Redis is gone, refuses, or has not answered within five seconds. It is unknown whether
                the entry was written; writing the same ratings again is harmless.
            ServiceError: the error of `verify`.
        """
        key = self._keys.ratings
        stream_id = id_of(await self._call("XADD", key, b"*", *itertools.chain.from_iterable(fields.items())), key)
        if stream_id <= self._last:  # emptied behind our back: no reader would see the entry
            self.reconnect()
            raise StreamUnavailable(f"Redis gave the id {stream_id} after {self._last}: was it emptied? Try again")
        self._last = stream_id
        self._tail.note([(stream_id, fields)])
        return stream_id

    async def check_writable(self) -> None:
        """Check that the server accepts writes, by one that changes nothing. Raises what `append` raises."""
        await self._call("XADD", self._keys.never, "NOMKSTREAM", "*", "v", "0")

    def reconnect(self) -> None:
        """Close the present connection; calls on it fail, and the next one opens a new one."""
        if self._connection is not None:
            self._connection.close()

    def close(self) -> None:
        """Close the connection; calls that still wait fail."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
        self.reconnect()

    async def _call(self, name: str, *arguments: bytes | str) -> Any:
        self.n_waiting += 1
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                connection = self._connection
                if connection is None or not connection.is_open:
                    connection = await self._opened()
                return await connection.call(name, *arguments)
        except TimeoutError:
            self._failure = StreamUnavailable(f"Redis has not answered within {CALL_TIMEOUT_S:g} s")
            raise self._failure from None
        finally:
            self.n_waiting -= 1

    async def _opened(self) -> Connection:
        """The connection that this caller or another one opens."""
        opening = self._opening
        if opening is None or opening.done():
            opening = self._opening = asyncio.create_task(self._open())
            # Retrieve the error even if no caller awaits it any more: otherwise asyncio logs a warning.
            opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        elif self._failure is not None:
            raise type(self._failure)(str(self._failure))
        await asyncio.wait({opening})  # a caller that gives up must not end the attempt for the others
        if opening.cancelled():
            raise StreamUnavailable("Redis connection is closed")
        return opening.result()

    async def _open(self) -> Connection:
        try:
            connection = await Connection.open(self._url, self._on_lost)
            try:
                await self._verify(await connection.run_id())
            except BaseException:
                connection.close()
                raise
        except ServiceError as error:
            self._failure = error
            raise
        self._connection, self._failure = connection, None
        return connection


class Connection(asyncio.Protocol):
    """A connection on which many commands may wait for their replies. Any failure closes it for good."""

    def __init__(self, on_lost: Callable[[], None] = lambda: None) -> None:
        """`on_lost`: called when the connection has ended."""
        self._on_lost = on_lost
        self._replies = hiredis.Reader()
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._transport: asyncio.Transport | None = None
        self._watchdog: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, url: str, on_lost: Callable[[], None] = lambda: None) -> Connection:
        """Connect, authenticate and select the database of the URL; `on_lost`: called when the connection has ended.

        Raises:
            StreamUnavailable: no connection within two seconds, or the server refuses.
        """
        target: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
        loop, connection = asyncio.get_running_loop(), cls(on_lost)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                if "path" in target:
                    await loop.create_unix_connection(lambda: connection, target["path"])
                else:
                    tls = None
                    if url.startswith("rediss:"):  # the options that redis-py knows under these names
                        tls = ssl.create_default_context(
                            cafile=target.get("ssl_ca_certs"), capath=target.get("ssl_ca_path")
                        )
                        if "ssl_certfile" in target:
                            key, password = target.get("ssl_keyfile"), target.get("ssl_password", "")
                            tls.load_cert_chain(target["ssl_certfile"], key, password)
                    host, port = target.get("host", "localhost"), target.get("port", 6379)
                    await loop.create_connection(lambda: connection, host, port, ssl=tls)
                try:
                    if "password" in target:
                        user = (target["username"],) if "username" in target else ()
                        await connection.call("AUTH", *user, target["password"])
                    if target.get("db"):
                        await connection.call("SELECT", str(target["db"]))
                except BaseException:
                    connection.close()
                    raise
        except (OSError, TimeoutError) as error:
            raise StreamUnavailable(f"Redis cannot be reached: {error or 'timed out'}") from error
        return connection

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

    async def run_id(self) -> str:
        """The id that the server has drawn at its start; empty if it refuses to tell."""
        try:
            reply: bytes = await self.call("INFO", "server")
        except StreamUnavailable:
            if not self.is_open:
                raise
            return ""
        lines = reply.decode(errors="replace").splitlines()
        return next((line.partition(":")[2] for line in lines if line.startswith("run_id:")), "")

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
