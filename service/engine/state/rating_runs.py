"""`RatingRun`: consecutive entries with their ratings and events as columns, made by the learner's thread."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.host_ids import IdColumn
from gpu.online.events import NO_KEY
from service.engine.state.strength_rows import Attributed
from service.storage.events import Entry, RatingColumns, StreamId


class RatingRun(NamedTuple):
    """Consecutive entries. Only the last one may be of another kind than ratings and events.

    Attributes:
        entries: in order.
        users, items: ids of their B ratings and events.
        types: of the E events.
        values: float32 (B,), ratings (NaN deletes) or values of events.
        timestamps: float64 (B,), Unix seconds.
        times_ms: int64 (B,), Unix milliseconds: the ids of the entries.
        are_events: bool (B,).
        keys: int64 (E,), of the event ids.
    """

    entries: list[Entry]
    users: IdColumn
    items: IdColumn
    types: list[str]
    values: NDArray[np.float32]
    timestamps: NDArray[np.float64]
    times_ms: NDArray[np.int64]
    are_events: NDArray[np.bool_]
    keys: NDArray[np.int64]

    @classmethod
    def of(cls, entries: list[Entry]) -> RatingRun:
        """The run of these entries."""
        ratings = RatingColumns.joined(entry.ratings for entry in entries)
        events = [event for entry in entries for event in entry.events]
        users, items, values, timestamps = ratings.users, ratings.items, ratings.values, ratings.timestamps
        are_events = np.zeros(len(values) + len(events), dtype=np.bool_)
        if events:
            users = IdColumn.joined([users, IdColumn.of([event.user for event in events])])
            items = IdColumn.joined([items, IdColumn.of([event.item for event in events])])
            values = np.append(values, [event.value for event in events])
            timestamps = np.append(timestamps, [event.timestamp for event in events])
            # The columns have ratings first; `order` is that of the stream.
            counts = [n for entry in entries for n in (len(entry.ratings), len(entry.events))]
            are_events = np.repeat(np.tile([False, True], len(entries)), counts)
            order = np.argsort(np.argsort(are_events, kind="stable"))
            users, items, values, timestamps = users.at(order), items.at(order), values[order], timestamps[order]
        return cls(
            entries,
            users,
            items,
            [event.type for event in events],
            values.astype(np.float32),
            timestamps,
            np.array([entry.id.ms for entry in entries], dtype=np.int64).repeat(
                [len(entry.ratings) + len(entry.events) for entry in entries]
            ),
            are_events,
            keys_of([event.event_id for event in events]),
        )

    @property
    def attributed(self) -> dict[int, Attributed]:
        """The events with a recommendation id, by their place among the events."""
        ids = [event.recommendation_id for entry in self.entries for event in entry.events]
        if not any(ids):
            return {}
        return {n: Attributed(event_id, self.types[n]) for n, event_id in enumerate(ids) if event_id}

    @property
    def closing(self) -> Entry | None:
        """The last entry, if it is of another kind than ratings and events."""
        return self.entries[-1] if self.entries and _closes(self.entries[-1]) else None

    def after(self, position: StreamId) -> RatingRun:
        """The entries after `position`, perhaps none."""
        return self.only([entry for entry in self.entries if entry.id > position])

    def only(self, entries: list[Entry]) -> RatingRun:
        """The run of `entries`, some or all of these in their order."""
        return self if len(entries) == len(self.entries) else RatingRun.of(entries)


def keys_of(event_ids: Sequence[str | None]) -> NDArray[np.int64]:
    """Keys by which event ids are compared, int64 (E,). They are only equal within a process, and are never stored."""
    keys = [NO_KEY if event_id is None else hash(event_id) or 1 for event_id in event_ids]
    return np.array(keys, dtype=np.int64)


def runs_of(entries: Sequence[Entry]) -> list[RatingRun]:
    """`entries` in as few runs as possible."""
    ends = [n for n, entry in enumerate(entries, 1) if _closes(entry) or n == len(entries)]
    return [RatingRun.of(list(entries[first:end])) for first, end in itertools.pairwise([0, *ends])]


def joined(runs: Sequence[RatingRun]) -> list[RatingRun]:
    """`runs` in as few as possible: to apply one rating takes as long as to apply fifty."""
    ends = [n for n, run in enumerate(runs, 1) if run.closing is not None or n == len(runs)]
    joined_runs = []
    for first, end in itertools.pairwise([0, *ends]):
        run = runs[first]
        if end - first > 1:
            columns = list(zip(*runs[first:end], strict=True))
            entries, types = (list(itertools.chain.from_iterable(columns[n])) for n in (0, 3))
            users, items = map(IdColumn.joined, columns[1:3])
            values, timestamps, times_ms, are_events, keys = map(np.concatenate, columns[4:])
            run = RatingRun(entries, users, items, types, values, timestamps, times_ms, are_events, keys)
        joined_runs.append(run)
    return joined_runs


def _closes(entry: Entry) -> bool:
    return entry.kind not in ("rating", "event", "noop")
