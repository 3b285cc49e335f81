"""`StreamReader`: a cursor over the stream that never misses an entry, whatever trimming does meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from service.errors import BadEntry, NewerEntry, StreamReplaced
from service.storage.events import Entry, Fields, StreamId, parse_entry
from service.storage.rating_log import RatingLog
from service.storage.stream import Stream

MAX_ENTRIES_PER_READ = 200  # of up to 1,000 ratings each


class RejectedEntry(NamedTuple):
    """An entry that is not in the format, and why."""

    id: StreamId
    fields: Fields
    reason: str


class Batch(NamedTuple):
    """What one read brought.

    Attributes:
        entries: in order; a bad entry is there as a "noop", so that the last id is always how far the reader is.
        rejected: the bad ones, for the archiver.
    """

    entries: list[Entry]
    rejected: list[RejectedEntry]


class StreamReader:
    """Reads stream entries in order from `cursor` on; what was trimmed before it was read comes from the rating log.

    Attributes:
        cursor: id of the last entry handed out.
    """

    def __init__(self, stream: Stream, log: RatingLog, after: StreamId) -> None:
        self._stream, self._log = stream, log
        self.cursor = after
        self._gap: Iterator[list[Entry]] = iter(())

    def read(self, block_ms: int, count: int = MAX_ENTRIES_PER_READ) -> Batch:
        """The next entries, at most about `count`; waits up to `block_ms` for the first one.

        Raises:
            StreamUnavailable: Redis is gone; the cursor has not moved and reading again goes on.
            StreamReplaced: entries were trimmed that the rating log does not have.
            CorruptLog: the gap cannot be read from the log.
            NewerEntry: the next entry is of a newer version; the cursor stays before it.
            InvalidKey: a key of ours in Redis has a value that is not ours.
        """
        batch = self._next_of_gap()
        if batch is None:
            found, trimmed = self._stream.read(self.cursor, block_ms, count)
            batch = self._open_gap(trimmed) if trimmed > self.cursor else _parse(found)
        if batch.entries:
            self.cursor = batch.entries[-1].id
        return batch

    def _next_of_gap(self) -> Batch | None:
        entries = next(self._gap, None)
        return None if entries is None else Batch(entries, [])

    def _open_gap(self, trimmed: StreamId) -> Batch:
        if trimmed > self._log.last_id():
            raise StreamReplaced(
                f"Invalid rating log: expected everything up to {trimmed}, which was trimmed from the stream,"
                f" got {self._log.last_id()}. Was the data folder replaced? Delete nearfield:trimmed to go on without"
            )
        self._gap = self._fill(trimmed)
        return self._next_of_gap() or Batch([], [])

    def _fill(self, trimmed: StreamId) -> Iterator[list[Entry]]:
        yield from self._log.entries(self.cursor, trimmed)
        if self.cursor < trimmed:  # the last entries there were bad ones, of which the log keeps nothing
            yield [Entry(trimmed, "noop")]


def _parse(found: list[tuple[StreamId, Fields]]) -> Batch:
    batch = Batch([], [])
    for stream_id, fields in found:
        try:
            batch.entries.append(parse_entry(stream_id, fields))
        except NewerEntry:
            if not batch.entries:
                raise
            break
        except BadEntry as error:
            batch.rejected.append(RejectedEntry(stream_id, fields, str(error)))
            batch.entries.append(Entry(stream_id, "noop"))
    return batch
