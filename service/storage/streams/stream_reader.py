"""`StreamReader`: a cursor over the stream that never misses an entry, even if entries are trimmed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from service.storage.errors import BadEntry, NewerEntry, StreamReplaced
from service.storage.events import Entry, Fields, StreamId, parse_entry
from service.storage.log.rating_log import RatingLog
from service.storage.streams.stream import Stream

MAX_ENTRIES_PER_READ = 200  # of up to 1,000 ratings each


class RejectedEntry(NamedTuple):
    """A bad entry, and why it is bad."""

    id: StreamId
    fields: Fields
    reason: str


class EntryBatch(NamedTuple):
    """The result of one read.

    Attributes:
        entries: in order; a bad entry becomes a "noop", so that the last id is always the position of the reader.
        rejected: the bad entries, for the archiver.
    """

    entries: list[Entry]
    rejected: list[RejectedEntry]


class StreamReader:
    """Reads stream entries in order from `cursor` on; takes entries that were already trimmed from the rating log.

    Attributes:
        cursor: id of the last entry returned.
    """

    def __init__(self, stream: Stream, log: RatingLog, after: StreamId) -> None:
        self._stream, self._log = stream, log
        self.cursor = after
        self._gap: Iterator[list[Entry]] = iter(())

    def read(self, block_ms: int, count: int = MAX_ENTRIES_PER_READ) -> EntryBatch:
        """The next entries, about `count` at most; waits up to `block_ms` for the first one.

        Raises:
            StreamUnavailable: Redis is gone; the cursor has not moved, and the read can be repeated.
            StreamReplaced: entries were trimmed that the rating log lacks.
            CorruptLog: the gap cannot be read from the log.
            NewerEntry: a newer version wrote the next entry; the cursor stays before it.
            InvalidKey: another program overwrote a key of the service in Redis.
        """
        entries = next(self._gap, None)
        if entries is not None:
            batch = EntryBatch(entries, [])
        else:
            raw_entries, trimmed = self._stream.read(self.cursor, block_ms, count)
            if trimmed > self.cursor:
                self._gap = self._entries_up_to(trimmed)
                batch = EntryBatch(next(self._gap, []), [])
            else:
                batch = EntryBatch([], [])
                for stream_id, fields in raw_entries:
                    try:
                        batch.entries.append(parse_entry(stream_id, fields))
                    except NewerEntry:
                        if not batch.entries:
                            raise
                        break
                    except BadEntry as error:
                        batch.rejected.append(RejectedEntry(stream_id, fields, str(error)))
                        batch.entries.append(Entry(stream_id, "noop"))
        if batch.entries:
            self.cursor = batch.entries[-1].id
        return batch

    def _entries_up_to(self, trimmed: StreamId) -> Iterator[list[Entry]]:
        """The entries of the log that were trimmed from the stream before they were read."""
        if trimmed > self._log.last_id():
            raise StreamReplaced(
                f"Invalid rating log: expected everything up to {trimmed}, which was trimmed from the stream,"
                f" got {self._log.last_id()}. The log of a replica has them once its store can be read again. If the"
                f" data folder was replaced, restore a backup; delete nearfield:trimmed only to go on without them"
            )
        yield from self._log.entries(self.cursor, trimmed)
        if self.cursor < trimmed:  # the last entries of the gap were bad ones, which the log does not keep
            yield [Entry(trimmed, "noop")]
