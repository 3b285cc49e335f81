"""`PendingEvents`: batches of entries on their way from the learner to the engine."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from service.base.errors import NotReady
from service.engine.state.rating_runs import RatingRun, runs_of
from service.storage.events import BATCH_RATINGS, Entry, StreamId

MAX_WAITING = 64  # batches; the learner waits while there are more
LATE_S = 1.0  # seconds; batches that wait for so long are learned together
_POLL_S = 0.2


class EventBatch(NamedTuple):
    """Entries in order, and the monotonic seconds at which they were queued."""

    runs: list[RatingRun]
    since: float

    @property
    def last(self) -> StreamId:
        """Id of the last entry."""
        return self.runs[-1].entries[-1].id

    @property
    def n_ratings(self) -> int:
        """Number of ratings, deletions and events."""
        return sum(len(run.values) for run in self.runs)

    @property
    def cost(self) -> int:
        """The number of ratings that take as long to apply."""
        return sum(entry.cost for run in self.runs for entry in run.entries)


class PendingEvents:
    """A bounded queue: one thread puts, another takes."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[EventBatch] = queue.Queue(MAX_WAITING)

    def __len__(self) -> int:
        """Batches that wait."""
        return self._waiting.qsize()

    @property
    def since(self) -> float:
        """Monotonic seconds at which the oldest batch was queued; infinity if none waits. For the thread that takes."""
        return self._waiting.queue[0].since if self._waiting.queue else math.inf

    def put(self, entries: Sequence[Entry], is_stopping: Callable[[], bool]) -> None:
        """Queue entries, at least one, as columns; waits while the queue is full.

        Raises:
            NotReady: `is_stopping` returned true.
        """
        event_batch = EventBatch(runs_of(entries), time.monotonic())
        while not is_stopping():
            try:
                self._waiting.put(event_batch, timeout=_POLL_S)
            except queue.Full:
                continue
            return
        raise NotReady("the engine has stopped")

    def may_join(self, batches: Sequence[EventBatch]) -> bool:
        """Whether to apply the next batch before the models have learned `batches`; only for the thread that takes.

        A late engine refits a user who is in several batches once.
        """
        is_late = time.monotonic() - self.since >= LATE_S
        return is_late and len(batches) < MAX_WAITING

    def take(self) -> list[EventBatch]:
        """The oldest batch and further ones, up to the cost of `BATCH_RATINGS`. The queue must not be empty."""
        batches = [self._waiting.get_nowait()]
        cost = batches[0].cost
        while cost < BATCH_RATINGS:
            try:
                batches.append(self._waiting.get_nowait())
            except queue.Empty:
                break
            cost += batches[-1].cost
        return batches
