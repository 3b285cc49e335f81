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

from msgspec import Struct, structs

from service.base.errors import Overloaded
from service.engine import fairness
from service.engine.background import Slices
from service.engine.fairness import Client, ClientWork, Portion, cost_of, n_requests_of
from service.engine.lists.page import PlainLists
from service.engine.queries import Query, Recommend
from service.engine.queries.columns import Ids, ListColumns

LATE = "the request waited for more than {:g} s"
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

    Attributes:
        portions: the clients whose requests it answers. If there are several, it asks for plain lists of their users.
        n: the requests of all of them.
    """

    query: Query
    promise: Promise
    since: float
    portions: Sequence[Portion]
    cost: int
    n: int

    @property
    def client(self) -> Client:
        """The first client; the only one of a query that waits in a line."""
        return self.portions[0].client

    def parts(self) -> list[PendingQuery]:
        """A query for each client, each with a place in its line; their answers together are the answer to this one."""
        if len(self.portions) == 1:
            return [self]
        assert isinstance(self.query, Recommend)  # noqa: S101 - only plain lists have several clients
        assert isinstance(self.query.users, Ids)  # noqa: S101 - as above
        users, joined, parts, first = self.query.users.parts(), Joined(self.promise, len(self.portions)), [], 0
        for at, portion in enumerate(self.portions):
            query = structs.replace(self.query, users=Ids.of(users[first : first + portion.n]))
            promise = PartPromise(joined, at)
            parts.append(PendingQuery(query, promise, self.since, [portion], cost_of(query), portion.n))
            first += portion.n
        return parts


class Joined:
    """The answers to the parts of one query, which are columns; the first error is the error of all."""

    def __init__(self, promise: Promise, n_parts: int) -> None:
        self.promise, self.answers = promise, list[ListColumns | None]([None] * n_parts)


class PartPromise(NamedTuple):
    """Takes the answer to one part."""

    joined: Joined
    at: int

    def done(self) -> bool:
        """See `Promise`."""
        return self.joined.promise.done()

    def set_result(self, result: ListColumns) -> None:
        """See `Promise`; the last answer completes the whole."""
        answers = self.joined.answers
        answers[self.at] = result
        whole = [answer for answer in answers if answer is not None]
        if len(whole) == len(answers):
            self.joined.promise.set_result(ListColumns.joined(whole))

    def set_exception(self, exception: Exception) -> None:
        """See `Promise`; then the other answers are not needed."""
        self.joined.promise.set_exception(exception)


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
        self.add(query, [Portion(fairness.current.get(), n_requests_of(query))], future)
        return future

    def add(self, query: Query, portions: Sequence[Portion], promise: Promise) -> None:
        """Queue a query of the clients of `portions`; `promise` gets its answer or its exception on the event loop.

        The requests that it answers count one by one.

        Raises:
            Overloaded: too many are waiting.
        """
        self._work.admit(*portions)
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self.hand_over)
        n = sum(portion.n for portion in portions)
        self._gathered.append(PendingQuery(query, promise, time.monotonic(), portions, cost_of(query), n))

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
        if not self._work.may_take(self._limits.max_batch, new):
            new = [part for pending in new for part in pending.parts()]
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
        self.answer(late, [Overloaded(LATE.format(limit_s)) for _ in late])
        return [pending for pending in pending_queries if now - pending.since <= limit_s]

    def within_time(self, pending: PendingQuery, slices: Slices) -> Slices:
        """`slices`, which make the answer to `pending`, but no longer than it may wait or its client is there.

        Raises:
            Overloaded: it has waited too long.
        """
        while not pending.promise.done():
            if time.monotonic() - pending.since > self._limits.max_wait_s:
                raise Overloaded(LATE.format(self._limits.max_wait_s))
            try:
                next(slices)
            except StopIteration as stop:
                return stop.value
            yield
        return None

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
            for client, n in pending.portions:
                self._work.done(client, n)
            if promise.done():  # the client has gone
                continue
            try:
                written = answer.columns() if isinstance(answer, PlainLists) else answer
            except Exception as error:  # becomes the answer of this query; the others are delivered
                written = error
            if isinstance(written, Exception):
                promise.set_exception(written)
            else:
                promise.set_result(written)
