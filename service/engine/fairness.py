"""`ClientWork`: the work of each client that waits: who may add more, and whose turn it is.

`current` is the client of the present request. `cost_of` is the cost of a query.

Work is taken by start-time fair queueing (Goyal, Vin, Cheng 1996). Each line has a virtual time, which a piece of work
advances by its cost; the line that is furthest behind is next. A line that was empty continues at the present virtual
time, so that an idle client saves up no credit. Each client has a separate line for its cheap work.

Costs of queries are in list items: a plain list costs its `n + offset` items, and any other query costs the number of
items that the engine could list in the same time. A cost of 4,096 takes about two or three milliseconds.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, deque
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from gpu.ranking.topn import MAX_N
from service.base.errors import Overloaded
from service.engine.queries import ItemUsers, Neighbors, Query, Ranked, Recommend, SetNeighbors, UserRatings
from service.engine.queries.catalog_queries import GetTagSizes, ListItems, ListUsers
from service.engine.queries.columns import Ids
from service.engine.queries.rating_queries import AllRatings, ItemRatings
from service.engine.queries.rules import has_rules, length_of
from service.telemetry.trace_context import Trace

MAX_COST = 4096  # of one batch, unless a single query costs more
LIGHT = 256  # highest cost of work that does not wait for more expensive work of the same client
SHARE = 4  # when too much waits, a client may have 1/SHARE of it
MAX_REMEMBERED = 4096  # lines; with more, empty ones are dropped
IDS_PER_ITEM = 16  # ids of `exclude` and `candidates` that can be looked up in the time of one list item
MAX_RESULTS = 100_000  # items in all lists of one request: about 10 MB of answer
EXPLAINED = 8  # cost of explaining one item
OF_ALL = 1024  # cost of one pass over all users or items
SET_ITEM_COST = 64  # cost of one item of a set whose neighbors are listed


class Client(NamedTuple):
    """The origin of a request: requests with equal address and key belong to one client.

    Attributes:
        address: as `service.api.door.client_address` determines it; empty for queries of the service itself.
        key: the verified `X-API-Key`; None if no key is needed.
    """

    address: str = ""
    key: bytes | None = None

    @property
    def trace(self) -> Trace | None:
        """The span of the present request; None if it is not recorded, as most are not."""
        return None


class TracedClient(Client):
    """The client of a request that is recorded; it is one and the same client as without the span."""

    _trace: Trace

    @classmethod
    def of(cls, client: Client, trace: Trace) -> TracedClient:
        """`client` with the span of its present request."""
        traced = cls(client.address, client.key)
        traced._trace = trace
        return traced

    @property
    def trace(self) -> Trace:
        """The span of the present request."""
        return self._trace


class Portion(NamedTuple):
    """`n` requests of a client."""

    client: Client
    n: int


NOBODY = Client()
current: ContextVar[Client] = ContextVar("client", default=NOBODY)


class _Line:
    """Work of one client, the oldest first, and the virtual time at which the next piece is due."""

    def __init__(self) -> None:
        self.waiting: deque[Any] = deque()
        self.due = 0.0


class ClientWork:
    """Pieces of work in lines; each has a `client`, a `cost` and, for `expire`, the time `since` which it waits.

    A piece stands for `n` requests of its client, which are counted one by one.

    The event loop calls `admit` and `done`, and the thread that does the work the rest.
    """

    def __init__(self, most: float = math.inf) -> None:
        """Bound what waits.

        Args:
            most: requests that may wait; more are refused. Default: no bound. A client with fewer than `most / SHARE`
                that are not done may add more until `2 * most` wait, so that one busy client cannot lock others out.
                A piece of more than `most` requests may wait alone.
        """
        self._most = most
        self._n_undone: Counter[Client] = Counter()
        self._n_admitted = self._n_taken = 0  # one writer each: no lock
        self._lines: dict[tuple[Client, bool], _Line] = {}
        self._heap: list[tuple[float, int, _Line]] = []  # the lines that are not empty
        self._numbers = itertools.count()
        self._now = 0.0  # virtual time

    def __len__(self) -> int:
        """Requests that were admitted and not taken."""
        return self._n_admitted - self._n_taken

    @property
    def has_lines(self) -> bool:
        """Whether a piece waits in a line."""
        return bool(self._heap)

    def admit(self, *portions: Portion) -> None:
        """Count one more piece, of one or several clients, which `add` or `take` gets.

        Raises:
            Overloaded: too many wait.
        """
        n_waiting, n = self._n_admitted - self._n_taken, sum(portion.n for portion in portions)
        for client, _ in portions:
            most = self._most if self._n_undone[client] >= self._most / SHARE else 2 * self._most
            if n_waiting and n_waiting + n > most:
                raise Overloaded(f"{n_waiting:,} requests are already waiting")
        self._n_admitted += n
        for client, own in portions:
            self._n_undone[client] += own

    def done(self, client: Client, n: int = 1) -> None:
        """A piece of this client has been taken and is done."""
        self._n_undone[client] -= n
        if not self._n_undone[client]:
            del self._n_undone[client]

    def add(self, work: Any) -> None:
        """Append a piece to its line."""
        name = work.client, work.cost <= LIGHT * work.n
        line = self._lines.get(name)
        if line is None:
            if len(self._lines) >= MAX_REMEMBERED:
                self._lines = {name: line for name, line in self._lines.items() if line.waiting}
            line = self._lines[name] = _Line()
        line.waiting.append(work)
        if len(line.waiting) == 1:
            line.due = max(line.due, self._now)
            self._push(line)

    def may_take(self, most: int, new: Sequence[Any]) -> bool:
        """Whether `take` would return `new` as it is: nothing waits, and all of it may be taken."""
        few = not self._heap and sum([work.n for work in new]) <= most
        return few and sum([work.cost for work in new]) <= MAX_COST

    def take(self, most: int, new: Sequence[Any] = ()) -> Sequence[Any]:
        """The next pieces: of at most `most` requests, with a total cost of at most `MAX_COST`, but at least one.

        `new`: pieces to add before; without a line, and if all of them may be taken, they keep their order.
        """
        if self.may_take(most, new):
            self._n_taken += sum([work.n for work in new])
            return new
        for work in new:
            self.add(work)
        taken: list[Any] = []
        n_taken = cost = 0
        while self._heap:
            due, _, line = self._heap[0]
            n_taken, cost = n_taken + line.waiting[0].n, cost + line.waiting[0].cost
            if taken and (n_taken > most or cost > MAX_COST):
                break
            heapq.heappop(self._heap)
            self._now = due
            work = line.waiting.popleft()
            line.due = due + work.cost
            taken.append(work)
            if line.waiting:
                self._push(line)
        self._n_taken += sum([work.n for work in taken])
        return taken

    def expire(self, before: float) -> list[Any]:
        """Take the pieces in lines that have waited since before the time `before`."""
        late: list[Any] = []
        for line in self._lines.values() if self._heap else ():
            while line.waiting and line.waiting[0].since < before:
                late.append(line.waiting.popleft())
        if late:
            self._n_taken += sum([work.n for work in late])
            self._heap = [entry for entry in self._heap if entry[2].waiting]
            heapq.heapify(self._heap)
        return late

    def _push(self, line: _Line) -> None:
        heapq.heappush(self._heap, (line.due, next(self._numbers), line))


def cost_of(query: Query) -> int:  # noqa: PLR0911 (one for each kind)
    """The cost of `query`, at least 1."""
    if isinstance(query, Recommend):
        return cost_of_list(query) * (1 if query.users is None else len(query.users))
    if isinstance(query, Ranked):
        return _width(query)
    if isinstance(query, Neighbors | ItemUsers | ListItems | ListUsers | ItemRatings | AllRatings):
        return OF_ALL + query.n
    if isinstance(query, SetNeighbors):
        return OF_ALL + query.n + len(query.items) * SET_ITEM_COST
    if isinstance(query, UserRatings):
        return query.n + query.offset // IDS_PER_ITEM
    if isinstance(query, GetTagSizes):
        return len(query.items)
    return 1


def n_requests_of(query: Query) -> int:
    """The requests that `query` answers: several, if their lists are asked for together."""
    return len(query.users) if isinstance(query, Recommend) and isinstance(query.users, Ids) else 1


def cost_of_list(query: Recommend) -> int:
    """The cost of one list of `query`."""
    cost = _width(query)
    if query.exclude or query.candidates or query.ratings or query.events:
        ids = sum(len(part or ()) for part in (query.exclude, query.candidates, query.ratings, query.events))
        cost += ids // IDS_PER_ITEM
    if has_rules(query):
        cost = max(cost, length_of(query)) << len(query.boosts)
    if query.explore:
        cost *= 1 + query.explore_below
    return cost + EXPLAINED * query.n if query.explain else cost


def _width(query: Ranked) -> int:
    """Items of a page with its offset; a page beyond `MAX_N` costs a full batch, because it sorts all items."""
    width = query.n + query.offset
    return width if width <= MAX_N else max(MAX_COST, query.n)
