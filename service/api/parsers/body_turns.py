"""`BodyTurns`: lets large bodies be parsed one after another, so that other requests are answered in between.

The event loop parses a body of a MiB in some ten milliseconds, in which it does nothing else. Clients take turns by the
bytes of their bodies, as they do with queries (`service.engine.fairness`).
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from service.base.errors import Overloaded
from service.engine import fairness
from service.engine.fairness import Client, ClientWork, Portion

LARGE_BYTES = 64 << 10  # longer bodies take turns; shorter ones hold the loop for at most five milliseconds
BYTES_PER_S = 25e6  # of large bodies that are let in: about half of the loop's time, however many wait
MAX_WAITING_BYTES = 64 << 20


class _Waiting(NamedTuple):
    """A body that waits; see `ClientWork`."""

    client: Client
    cost: int
    turn: asyncio.Future[None]
    n: int = 1


class BodyTurns:
    """The bodies of one event loop."""

    def __init__(self) -> None:
        self._work = ClientWork()
        self._n_bytes = 0  # of bodies that wait
        self._is_free = True

    async def take(self, n_bytes: int) -> None:
        """Return when a body of this many bytes may be parsed.

        Raises:
            Overloaded: too many bytes wait.
        """
        if n_bytes <= LARGE_BYTES:
            return
        if self._n_bytes + n_bytes > MAX_WAITING_BYTES:
            raise Overloaded(f"{self._n_bytes >> 20} MiB of bodies are already waiting; send fewer at a time")
        loop = asyncio.get_running_loop()
        client = fairness.current.get()
        waiting = _Waiting(client, n_bytes, loop.create_future())
        self._work.admit(Portion(client, 1))
        self._work.add(waiting)
        self._n_bytes += n_bytes
        if self._is_free:
            self._next(loop)
        try:
            await waiting.turn
        finally:
            self._n_bytes -= n_bytes
            self._work.done(client)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the next body in, and the one after it when this one is probably parsed."""
        waiting = next(iter(self._work.take(1)), None)
        self._is_free = waiting is None
        if waiting is not None:
            gone = waiting.turn.done()  # the client has left meanwhile
            if not gone:
                waiting.turn.set_result(None)
            loop.call_later(0.0 if gone else waiting.cost / BYTES_PER_S, self._next, loop)
