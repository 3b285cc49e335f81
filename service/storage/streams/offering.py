"""`Offering`: offers to a Redis that was started again what this process has written, whatever its engine does.

If Redis comes back older while the engine of a front is away, only the front has what it has acknowledged last. So it
offers this itself, on a connection of its own, and who verifies the server writes it again
(docs/decisions/0125-a-server-that-was-started-again-waits-for-all.md).
"""

from __future__ import annotations

import asyncio
import contextlib

from service.settings.keyspace import Keyspace
from service.storage.errors import StreamUnavailable
from service.storage.events import ZERO
from service.storage.streams.redis_client import OFFER
from service.storage.streams.stream_writer import Connection
from service.storage.streams.tail import Tail
from service.storage.streams.verification import OFFERED_S, packed

LOOK_S = 0.5  # seconds between two offers, or attempts to connect: the others wait for `verification.OTHERS_S`


class Offering:
    """Offers the entries of a tail to each run of a server, until that run is verified. Belongs to one event loop."""

    def __init__(self, url: str, tail: Tail, keys: Keyspace) -> None:
        """Prepare. `url`, `tail` and `keys`: those of the `StreamWriter` of this process."""
        self._url, self._tail, self._keys = url, tail, keys
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the running event loop."""
        self._task = asyncio.create_task(self._run())

    def look_again(self) -> None:
        """Connect again: the server may have been replaced, or emptied."""
        if self._connection is not None:
            self._connection.close()

    def close(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
        self.look_again()

    async def _run(self) -> None:
        while True:
            is_lost = asyncio.Event()
            with contextlib.suppress(StreamUnavailable):
                self._connection = await Connection.open(self._url, is_lost.set)
                try:
                    await self._offer(self._connection)
                    await is_lost.wait()
                finally:
                    self._connection.close()
            await asyncio.sleep(LOOK_S)

    async def _offer(self, connection: Connection) -> None:
        """Offer until the server is verified; one that refuses to tell its run is, as for `Verification.is_current`."""
        run, keys = await connection.run_id(), (self._keys.verified, self._keys.lost)
        # Once: nothing is written to a server that is not verified.
        offer = [part for stream_id, fields in self._tail.after(ZERO) for part in (str(stream_id), packed(fields))]
        while run and offer and not await connection.call("EVAL", OFFER, "2", *keys, run, str(OFFERED_S), *offer):
            await asyncio.sleep(LOOK_S)
