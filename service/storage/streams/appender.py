"""`Appender`: appends entries to the ratings stream: the part of `Stream` for processes that only write."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from service.base.errors import StreamUnavailable
from service.settings.keyspace import DEFAULT, Keyspace
from service.storage.events import ZERO, Fields, StreamId
from service.storage.streams.append_pipe import RedisPipe
from service.storage.streams.redis_client import id_of
from service.storage.streams.shared_pipe import SharedPipe, Verify
from service.storage.streams.tail import Tail


class Appender:
    """Writes on one connection, for many requests. Belongs to one event loop."""

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
            verify: called with each new connection before its first entry; if it raises, no entry is written.
            tail: gets each entry that was written.
            keys: of the data set.
            on_lost: called when a connection has ended.
        """
        self._pipe = SharedPipe(url, verify, on_lost)
        self._tail, self._last = tail, ZERO
        self._ratings, self._never = keys.ratings, keys.never

    @property
    def n_appending(self) -> int:
        """Calls that wait for a connection or for the server."""
        return self._pipe.n_waiting

    async def append(self, fields: Fields) -> StreamId:
        """Append one entry, once; on return it is as durable as the server's fsync policy makes it.

        Raises:
            StreamUnavailable: Redis is gone, hangs or refuses. It is unknown whether the entry was written; writing the
                same ratings again is harmless.
            ServiceError: the error of `verify`.
        """
        raw = await self._pipe.call("XADD", self._ratings, b"*", *itertools.chain.from_iterable(fields.items()))
        stream_id = id_of(raw, self._ratings)
        if stream_id <= self._last:  # emptied behind our back: no reader would see the entry
            self._pipe.reconnect()
            raise StreamUnavailable(f"Redis gave the id {stream_id} after {self._last}: was it emptied? Try again")
        self._last = stream_id
        self._tail.note([(stream_id, fields)])
        return stream_id

    async def check_writable(self) -> None:
        """Check that the server accepts writes, by one that changes nothing. Raises what `append` raises."""
        await self._pipe.call("XADD", self._never, "NOMKSTREAM", "*", "v", "0")

    def reconnect(self) -> None:
        """Close the present connection; appends on it fail, and the next one opens a new one."""
        self._pipe.reconnect()

    def close(self) -> None:
        """Close the connection; appends that still wait fail."""
        self._pipe.close()


async def run_id_of(pipe: RedisPipe) -> str:
    """The id that the server has drawn at its start; empty if it refuses to tell."""
    try:
        reply: bytes = await pipe.call("INFO", "server")
    except StreamUnavailable:
        if not pipe.is_open:
            raise
        return ""
    lines = reply.decode(errors="replace").splitlines()
    return next((line.partition(":")[2] for line in lines if line.startswith("run_id:")), "")
