"""`RatingRun`: consecutive entries with their ratings as columns, made by the learner's thread for the engine's.

Ids stay text, one for each rating: to find the distinct ones first would take as long as to look up every one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.storage.events import Entry, StreamId


class RatingRun(NamedTuple):
    """Consecutive entries. Only the last one may be of another kind than ratings.

    Attributes:
        entries: in order.
        users, items: ids of their B ratings.
        values: float32 (B,); NaN deletes.
        timestamps: float64 (B,), Unix seconds.
        times_ms: int64 (B,), Unix milliseconds: the ids of the entries.
    """

    entries: list[Entry]
    users: list[str]
    items: list[str]
    values: NDArray[np.float32]
    timestamps: NDArray[np.float64]
    times_ms: NDArray[np.int64]

    @classmethod
    def of(cls, entries: list[Entry]) -> RatingRun:
        """The run of these entries."""
        ratings = [rating for entry in entries for rating in entry.ratings]
        times_ms = [entry.id.ms for entry in entries for _ in entry.ratings]
        return cls(
            entries,
            [rating.user for rating in ratings],
            [rating.item for rating in ratings],
            np.array([math.nan if rating.rating is None else rating.rating for rating in ratings], dtype=np.float32),
            np.array([rating.timestamp for rating in ratings], dtype=np.float64),
            np.array(times_ms, dtype=np.int64),
        )

    @property
    def closing(self) -> Entry | None:
        """The last entry, if it is of another kind than ratings."""
        return self.entries[-1] if self.entries and _closes(self.entries[-1]) else None

    def after(self, position: StreamId) -> RatingRun:
        """The entries after `position`, perhaps none."""
        return RatingRun.of([entry for entry in self.entries if entry.id > position])


def runs_of(entries: Sequence[Entry]) -> list[RatingRun]:
    """`entries` in as few runs as possible."""
    ends = [n for n, entry in enumerate(entries, 1) if _closes(entry) or n == len(entries)]
    return [RatingRun.of(list(entries[first:end])) for first, end in itertools.pairwise([0, *ends])]


def joined(runs: Sequence[RatingRun]) -> list[RatingRun]:
    """`runs` in as few as possible: to apply one rating takes as long as to apply fifty."""
    ends = [n for n, run in enumerate(runs, 1) if run.closing is not None or n == len(runs)]
    return [_joined(runs[first:end]) for first, end in itertools.pairwise([0, *ends])]


def _closes(entry: Entry) -> bool:
    return entry.kind not in ("rating", "noop")


def _joined(runs: Sequence[RatingRun]) -> RatingRun:
    if len(runs) == 1:
        return runs[0]
    entries, users, items, values, timestamps, times_ms = zip(*runs, strict=True)
    columns = map(np.concatenate, (values, timestamps, times_ms))
    return RatingRun(_chained(entries), _chained(users), _chained(items), *columns)


def _chained(parts: Sequence[list[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(parts))
