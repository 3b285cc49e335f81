"""`PendingQueries`: carries queries from the event loop to the engine, and their answers back.

A query never waits for others to fill a batch. Queries of one turn of the event loop are handed over together at its
end, and those that arrive while the engine works form the next batch. If a batch would take more than some
milliseconds, its queries go into lines by client, and expensive ones wait (`service.engine.fairness`).
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from service.base.errors import Overloaded
from service.engine import fairness
from service.engine.fairness import Client, ClientWork, cost_of, n_requests_of
from service.engine.queries import Query

IDLE_S = 1.0  # seconds; longest sleep of the engine without a query


class Limits(NamedTuple):
    """Limits of the queue; the settings of the same names have the defaults.

    Attributes:
        max_batch: most requests that one batch answers.
        max_waiting: most requests that wait, see `ClientWork`; more are refused.
        max_wait_s: seconds; a query that waits longer is refused.
    """

    max_batch: int
    max_waiting: int
    max_wait_s: float


class Promise(Protocol):
    """Takes one answer: a future, or the connection of a front process."""

    def done(self) -> bool:
        """Whether the answer is no longer needed."""
        ...

    def set_result(self, result: Any) -> None:
        """Take the answer."""
        ...

    def set_exception(self, exception: Exception) -> None:
        """Take the error."""
        ...


class PendingQuery(Struct, frozen=True):
    """A query, the promise of its answer, and `since`, the monotonic seconds at which it arrived.

    `n`: the requests that it answers, see `ClientWork`.
    """

    query: Query
    promise: Promise
    since: float
    client: Client
    cost: int
    n: int


class PendingQueries:
    """A bounded queue into the engine's thread.

    The event loop calls `put` and `hand_over`, any thread may call `wake`, and the engine calls the rest.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._gathered: list[PendingQuery] = []  # queries of this turn of the event loop
        self._handed: queue.SimpleQueue[list[PendingQuery]] = queue.SimpleQueue()
        self._work = ClientWork(limits.max_waiting)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed_by: Exception | None = None

    def __len__(self) -> int:
        """Queries that wait."""
        return len(self._work)

    def connect(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver answers on `loop`."""
        self._loop = loop

    def put(self, query: Query) -> asyncio.Future[Any]:
        """Queue a query of the present client; the future gets its answer or its exception.

        Raises:
            Overloaded: too many are waiting.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.add(query, fairness.current.get(), future)
        return future

    def add(self, query: Query, client: Client, promise: Promise) -> None:
        """Queue a query of `client`; `promise` gets its answer or its exception on the event loop.

        The requests that it answers count one by one.

        Raises:
            Overloaded: too many are waiting.
        """
        n = n_requests_of(query)
        self._work.admit(client, n)
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self.hand_over)
        self._gathered.append(PendingQuery(query, promise, time.monotonic(), client, cost_of(query), n))

    def hand_over(self) -> None:
        """Pass the queries of this turn to the engine, with one wake-up for all."""
        self._handed.put(self._gathered)
        self._gathered = []
        if self._closed_by is not None:  # the engine may have ended and would not take them
            self.abandon(self._closed_by)

    def wake(self) -> None:
        """Make a `take` that sleeps return."""
        self._handed.put([])

    def take(self, *, sleep: bool) -> Sequence[PendingQuery]:
        """The next batch; with `sleep` it waits for the first query or `wake`."""
        new: list[PendingQuery] = []
        handed = self._handed
        if sleep and not self._work.has_lines:
            with contextlib.suppress(queue.Empty):
                new = handed.get(timeout=IDLE_S)
        while not handed.empty():
            new = new + handed.get_nowait() if new else handed.get_nowait()
        return self._work.take(self._limits.max_batch, new)

    def in_time(self, pending_queries: Sequence[PendingQuery], now: float) -> Sequence[PendingQuery]:
        """Those of `pending_queries` that have not waited too long. Refuses the others, and late ones in the lines."""
        limit_s = self._limits.max_wait_s
        late = [
            *self._work.expire(now - limit_s),
            *(pending for pending in pending_queries if now - pending.since > limit_s),
        ]
        if not late:
            return pending_queries
        self.answer(late, [Overloaded(f"the request waited for more than {limit_s:g} s") for _ in late])
        return [pending for pending in pending_queries if now - pending.since <= limit_s]

    def answer(self, pending_queries: Sequence[PendingQuery], answers: Sequence[Any]) -> None:
        """Deliver all answers or exceptions in one call of the event loop."""
        self.call_on_loop(self._deliver, pending_queries, answers)

    def abandon(self, error: Exception) -> None:
        """Answer every waiting query, and every later one, with `error`."""
        self._closed_by = error
        while left := self._work.take(self._limits.max_batch):
            self.answer(left, [error] * len(left))
        with contextlib.suppress(queue.Empty):
            while True:
                handed = self._handed.get_nowait()
                self.answer(handed, [error] * len(handed))

    def call_on_loop(self, call: Any, *arguments: Any) -> None:
        """Call `call(*arguments)` on the event loop; does nothing if the loop is closed."""
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call, *arguments)

    def _deliver(self, pending_queries: Sequence[PendingQuery], answers: Sequence[Any]) -> None:
        for pending, answer in zip(pending_queries, answers, strict=True):
            promise = pending.promise
            self._work.done(pending.client, pending.n)
            if promise.done():  # the client has gone
                continue
            if isinstance(answer, Exception):
                promise.set_exception(answer)
            else:
                promise.set_result(answer)
