"""Entries into the rating log and out of it, for tests."""

from collections.abc import Mapping, Sequence
from typing import Any

import redis

from service.storage.events import ZERO, Entry, RatingEvent, StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment import table_of
from service.storage.log.segment_folder import Segment
from tests.service.keys import RATINGS

END = StreamId(2**62, 0)


def commit(log: RatingLog, entries: Sequence[Entry]) -> Segment:
    """One segment of these entries, which come after all that is there."""
    return log.files.write(entries[0].id, entries[-1].id, [table_of(entries)])


def append(client: redis.Redis, fields: Mapping[bytes, bytes], stream_id: str = "*") -> StreamId:
    """Put an entry into the stream, as another process may; `client` must decode responses."""
    entry: dict[Any, Any] = dict(fields)
    told = client.xadd(RATINGS, entry, id=stream_id)
    assert isinstance(told, str)
    return StreamId.parse(told)


def contents(log: RatingLog, after: StreamId = ZERO) -> list[Entry]:
    return [entry for entries in log.entries(after, END) for entry in entries]


def ratings_of(log: RatingLog, user: str) -> list[RatingEvent]:
    return [rating for entry in contents(log) for rating in entry.ratings if rating.user == user]
