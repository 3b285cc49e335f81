"""Rows of a batch of ratings and events, as `Strengths` takes them, and the sums of their pairs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.ratings import Occasions

MOST_OCCASIONS = 2**25  # 700 MB


class Attributed(NamedTuple):
    """An event with a recommendation id."""

    recommendation_id: str
    type: str


class EventRows(NamedTuple):
    """The events among B rows of a batch.

    Attributes:
        are_events: bool (B,); all other rows are ratings.
        weights: float64 (E,), weight of the type of each event; NaN for an unknown type, which counts for nothing.
        bits: uint32 (E,), the bit of each type; 0 for an unknown one.
        keys: int64 (E,), of the event ids, see `gpu.online.events`.
        attributed: those with a recommendation id, by their place among the events.
    """

    are_events: NDArray[np.bool_]
    weights: NDArray[np.float64]
    bits: NDArray[np.uint32]
    keys: NDArray[np.int64]
    attributed: Mapping[int, Attributed] = {}


class Batch(NamedTuple):
    """B rows to apply in order.

    Attributes:
        users, items: int32 (B,), rows of the ids.
        values: float32 (B,), ratings (NaN deletes), or values of events.
        timestamps: float64 (B,), Unix seconds.
        times_ms: int64 (B,), of the entries.
        positions: int64 (B,), ascending.
    """

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.float32]
    timestamps: NDArray[np.float64]
    times_ms: NDArray[np.int64]
    positions: NDArray[np.int64]

    def where(self, rows: NDArray[np.bool_]) -> Batch:
        """The rows that a mask (B,) names."""
        if rows.all():
            return self
        users, items, values, timestamps, times_ms, positions = self
        return Batch(users[rows], items[rows], values[rows], timestamps[rows], times_ms[rows], positions[rows])


class NewestOccasions:
    """The newest events with a weight above 0, one by one, as a training reads them.

    Attributes:
        parts: in the order of the stream.
    """

    def __init__(self) -> None:
        self.parts, self._n = deque[Occasions](), 0

    def add(self, batch: Batch, events: EventRows, are_first: NDArray[np.bool_]) -> None:
        """Add those of a batch that are no repetitions, by `are_first`, bool (E,). Of too many, drop the oldest."""
        rows = batch.where(events.are_events)
        added = rows.values * events.weights
        comes = are_first & (added > 0)  # false for NaN
        seconds = np.minimum(rows.timestamps, rows.times_ms / 1000)[comes]
        self.parts.append(Occasions(rows.users[comes], rows.items[comes], seconds, added[comes].astype(np.float32)))
        self._n += int(np.count_nonzero(comes))
        while self._n > MOST_OCCASIONS:
            self._n -= len(self.parts.popleft().users)

    def remove(self, user: int, item: int, seconds: float, amount: float) -> None:
        """Drop the newest such event, if it is here."""
        for n in range(len(self.parts) - 1, -1, -1):
            part = self.parts[n]
            is_it = (part.users == user) & (part.items == item) & (part.seconds == seconds)
            places = np.flatnonzero(is_it & (part.amounts == np.float32(amount)))
            if len(places):
                self.parts[n] = part.at(np.arange(len(part.users)) != places[-1])
                self._n -= 1
                return


class Sums(NamedTuple):
    """The events of P distinct pairs.

    Attributes:
        users, items: int32 (P,), rows.
        pair_of: int64 (B,), the pair of each row of a batch.
        ratings, rated_s: float32 and float64 (P,), the ratings of the pairs and their timestamps; NaN for none.
        sums: float32 (P,); NaN for a pair without events.
        latest: float64 (P,), Unix seconds of the latest event that may change a strength; −∞ for none.
        are_apart: bool (P,), whether the sum was in the table of sums.
    """

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    pair_of: NDArray[np.int64]
    ratings: NDArray[np.float32]
    rated_s: NDArray[np.float64]
    sums: NDArray[np.float32]
    latest: NDArray[np.float64]
    are_apart: NDArray[np.bool_]
