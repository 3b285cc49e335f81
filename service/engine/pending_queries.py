"""`PendingQueries`: queries on their way from the event loop to the engine, and their answers on the way back.

A query never waits for company: those that come in one turn of the event loop are handed over together at its end, and
those that come while the engine works are the next batch. If they would take more than some milliseconds together, they
stand in lines by client, and what costs much waits (`service.engine.fair_lines`).
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from service.engine import fairness
from service.engine.fair_lines import FairLines
from service.engine.fairness import MAX_COST, Client, cost_of
from service.engine.queries import Query
from service.errors import Overloaded

IDLE_S = 1.0
SHARE = 4  # of what may wait, one client's part, when it is full


class Limits(NamedTuple):
    """How much may wait; defaults are those of the settings of the same names.

    Attributes:
        max_batch: queries that are answered together.
        max_waiting: queries that wait, beyond which more are refused. A client of whom less than a `SHARE` of so many
            wait may go on to ask, until twice as many wait: one that asks without end locks nobody out.
        max_wait_s: seconds after which a query that still waits is refused.
    """

    max_batch: int
    max_waiting: int
    max_wait_s: float


class PendingQuery(Struct, frozen=True):
    """A query, the future, of the event loop, that takes its answer, and when it was asked, in monotonic seconds."""

    query: Query
    future: asyncio.Future[Any]
    since: float
    client: Client
    cost: int


class PendingQueries:
    """A bounded queue into the engine's thread. `put` and `hand_over` belong to the event loop, `wake` to anybody,
    the rest to the engine.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._gathered: list[PendingQuery] = []  # in this turn of the event loop
        self._handed: queue.SimpleQueue[list[PendingQuery]] = queue.SimpleQueue()
        self._lines = FairLines()  # handed over beyond what a batch may have
        self._n_unanswered: Counter[Client] = Counter()  # belongs to the event loop
        self._n_put = self._n_taken = 0  # one writer each: no lock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed_by: Exception | None = None

    def __len__(self) -> int:
        """Questions that wait."""
        return self._n_put - self._n_taken

    def connect(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answers go to `loop`."""
        self._loop = loop

    def put(self, query: Query) -> asyncio.Future[Any]:
        """Queue a query; its answer, or exception, goes to the future.

        Raises:
            Overloaded: too many are waiting.
        """
        client = fairness.current.get()
        if self._n_put - self._n_taken >= self._limits.max_waiting:
            self._check_share(client)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._gathered:
            loop.call_soon(self.hand_over)
        self._gathered.append(PendingQuery(query, future, time.monotonic(), client, cost_of(query)))
        self._n_put += 1
        self._n_unanswered[client] += 1
        return future

    def _check_share(self, client: Client) -> None:
        most, n_waiting = self._limits.max_waiting, self._n_put - self._n_taken
        if n_waiting >= 2 * most or self._n_unanswered[client] >= most / SHARE:
            raise Overloaded(f"{n_waiting:,} requests are waiting already")

    def hand_over(self) -> None:
        """Let the engine see what was put: one wake-up for all of it."""
        self._handed.put(self._gathered)
        self._gathered = []
        if self._closed_by is not None:  # the engine may have looked for the last time
            self.abandon(self._closed_by)

    def wake(self) -> None:
        """Make a `take` that sleeps return."""
        self._handed.put([])

    def take(self, *, sleep: bool) -> list[PendingQuery]:
        """Everything that waits, up to a limit; with `sleep` it waits for the first one or `wake`."""
        taken: list[PendingQuery] = []
        handed, most, lines = self._handed, self._limits.max_batch, self._lines
        if sleep and not lines:
            with contextlib.suppress(queue.Empty):
                taken = handed.get(timeout=IDLE_S)
        while not handed.empty():
            taken = taken + handed.get_nowait() if taken else handed.get_nowait()
        if lines or len(taken) > most or sum(pending.cost for pending in taken) > MAX_COST:
            for pending in taken:
                lines.add(pending)
            taken = lines.take(most)
        self._n_taken += len(taken)
        return taken

    def in_time(self, pending_queries: list[PendingQuery], now: float) -> list[PendingQuery]:
        """Those of `pending_queries` that have not waited too long; refuses the others, and all that still wait."""
        limit_s = self._limits.max_wait_s
        expired = self._lines.expire(now - limit_s) if self._lines else []
        self._n_taken += len(expired)
        late = [*expired, *(pending for pending in pending_queries if now - pending.since > limit_s)]
        if not late:
            return pending_queries
        self.answer(late, [Overloaded(f"the request waited for more than {limit_s:g} s") for _ in late])
        return [pending for pending in pending_queries if now - pending.since <= limit_s]

    def answer(self, pending_queries: Sequence[PendingQuery], answers: Sequence[Any]) -> None:
        """Hand over all answers, or exceptions, in one call of the event loop."""
        self.tell(self._deliver, pending_queries, answers)

    def abandon(self, error: Exception) -> None:
        """Answer everything that waits, and whatever is put from now on, with `error`."""
        self._closed_by = error
        while left := self._lines.take(self._limits.max_batch):
            self.answer(left, [error] * len(left))
        with contextlib.suppress(queue.Empty):
            while True:
                handed = self._handed.get_nowait()
                self.answer(handed, [error] * len(handed))

    def tell(self, call: Any, *arguments: Any) -> None:
        """Call something on the event loop; a loop that is closed is told nothing."""
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call, *arguments)

    def _deliver(self, pending_queries: Sequence[PendingQuery], answers: Sequence[Any]) -> None:
        unanswered = self._n_unanswered
        for pending, answer in zip(pending_queries, answers, strict=True):
            if unanswered[pending.client] > 1:
                unanswered[pending.client] -= 1
            else:
                del unanswered[pending.client]
            future = pending.future
            if future.done():  # the client has gone
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
