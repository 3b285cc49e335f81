"""`FairLines`: chooses the next queries so that each client gets a fair share. Belongs to the engine thread.

Start-time fair queueing (Goyal, Vin, Cheng 1996). Each line has a virtual time, which a query advances by its cost; the
line that is furthest behind is next. A line that was empty continues at the present virtual time, so that an idle
client saves up no credit. Each client has a separate line for its cheap queries.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from typing import Any

from service.engine.fairness import LIGHT, MAX_COST, Client

MAX_REMEMBERED = 4096  # lines; with more, empty ones are dropped


class _Line:
    """Queries of one client, the oldest first, and the virtual time at which the next one is due."""

    def __init__(self) -> None:
        self.pending_queries: deque[Any] = deque()
        self.due = 0.0


class FairLines:
    """Waiting queries in lines; each has a `client`, a `cost` and the time `since` which it waits."""

    def __init__(self) -> None:
        self._lines: dict[tuple[Client, bool], _Line] = {}
        self._heap: list[tuple[float, int, _Line]] = []  # the lines that are not empty
        self._numbers = itertools.count()
        self._now = 0.0  # virtual time
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, pending: Any) -> None:
        """Append a query to its line."""
        name = pending.client, pending.cost <= LIGHT
        line = self._lines.get(name)
        if line is None:
            self._forget_idle()
            line = self._lines[name] = _Line()
        line.pending_queries.append(pending)
        self._n += 1
        if len(line.pending_queries) == 1:
            line.due = max(line.due, self._now)
            self._push(line)

    def take(self, most: int) -> list[Any]:
        """The next queries: at most `most`, with a total cost of at most `MAX_COST`, but at least one."""
        taken: list[Any] = []
        cost = 0
        while self._heap and len(taken) < most:
            due, _, line = self._heap[0]
            cost += line.pending_queries[0].cost
            if taken and cost > MAX_COST:
                break
            heapq.heappop(self._heap)
            self._now = due
            pending = line.pending_queries.popleft()
            line.due = due + pending.cost
            taken.append(pending)
            if line.pending_queries:
                self._push(line)
        self._n -= len(taken)
        return taken

    def expire(self, before: float) -> list[Any]:
        """Remove and return the queries that have waited since before the time `before`."""
        late: list[Any] = []
        for line in self._lines.values():
            while line.pending_queries and line.pending_queries[0].since < before:
                late.append(line.pending_queries.popleft())
        if late:
            self._n -= len(late)
            self._heap = [entry for entry in self._heap if entry[2].pending_queries]
            heapq.heapify(self._heap)
        return late

    def _push(self, line: _Line) -> None:
        heapq.heappush(self._heap, (line.due, next(self._numbers), line))

    def _forget_idle(self) -> None:
        if len(self._lines) >= MAX_REMEMBERED:
            self._lines = {name: line for name, line in self._lines.items() if line.pending_queries}
