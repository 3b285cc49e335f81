"""Entries into the rating log and out of it, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from service.storage.events import ZERO, Entry, RatingEvent, StreamId
from service.storage.rating_log import RatingLog, Segment
from service.storage.segment import table_of

END = StreamId(2**62, 0)


def commit(log: RatingLog, entries: Sequence[Entry]) -> Segment:
    """One segment of these entries, which come after all that is there."""
    return log.write(entries[0].id, entries[-1].id, [table_of(entries)])


def contents(log: RatingLog, after: StreamId = ZERO) -> list[Entry]:
    return [entry for entries in log.entries(after, END) for entry in entries]


def ratings_of(log: RatingLog, user: str) -> list[RatingEvent]:
    return [rating for entry in contents(log) for rating in entry.ratings if rating.user == user]
