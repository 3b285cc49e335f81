"""`PendingEvents`: batches of entries on their way from the learner to the engine."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from service.errors import NotReady
from service.storage.events import BATCH_RATINGS, Entry

MAX_WAITING = 64  # lessons, beyond which the learner is made to wait
_POLL_S = 0.2


class EventBatch(NamedTuple):
    """Entries in order, and when they were handed in (monotonic seconds)."""

    entries: Sequence[Entry]
    since: float

    @property
    def n_ratings(self) -> int:
        """Ratings and deletions in it."""
        return sum(len(entry.ratings) for entry in self.entries)


class PendingEvents:
    """A bounded queue: one thread puts, another takes."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[EventBatch] = queue.Queue(MAX_WAITING)

    def __len__(self) -> int:
        """Lessons that wait."""
        return self._waiting.qsize()

    @property
    def since(self) -> float:
        """When the oldest one was handed in; only the thread that takes may ask, and only if one is there."""
        oldest: EventBatch = self._waiting.queue[0]
        return oldest.since

    def put(self, entries: Sequence[Entry], is_stopping: Callable[[], bool]) -> None:
        """Queue entries; waits while the queue is full.

        Raises:
            NotReady: `is_stopping` said so.
        """
        event_batch = EventBatch(entries, time.monotonic())
        while not is_stopping():
            try:
                self._waiting.put(event_batch, timeout=_POLL_S)
            except queue.Full:
                continue
            return
        raise NotReady("the engine has stopped")

    def take(self) -> list[EventBatch]:
        """The oldest lesson, and those behind it up to `BATCH_RATINGS`; one must be there."""
        taken = [self._waiting.get_nowait()]
        n_ratings = taken[0].n_ratings
        while n_ratings < BATCH_RATINGS:
            try:
                taken.append(self._waiting.get_nowait())
            except queue.Empty:
                break
            n_ratings += taken[-1].n_ratings
        return taken
