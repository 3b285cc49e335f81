"""`Sources`: how far each source of batches has come, so that a batch which is delivered twice counts once.

A queue delivers a batch again if it did not hear that the batch was taken. Meanwhile others may have changed the same
ratings, and the batch must not undo that. Whether an entry counts depends on the entries before it alone, so a replay,
a restart and every replica decide alike. That holds for names that are dropped, too: see `MAX_SOURCES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from service.storage.events import Entry, Source, StreamId

MAX_SOURCES = 10_000  # names; clients choose them, and one takes up to 600 bytes


class _Mark(NamedTuple):
    offset: int
    entry: StreamId  # which came that far: the rows of one entry may come in two pieces


class Sources:
    """The highest offset of each of the `MAX_SOURCES` sources that advanced last. Entries are expected in order."""

    def __init__(self) -> None:
        self._marks: dict[str, _Mark] = {}  # the source that advanced last comes last

    def new_of(self, entries: Sequence[Entry]) -> list[Entry]:
        """`entries` without those that repeat what their source has delivered before.

        An entry without rows is not in the log, so it must leave no trace here.
        """
        return [one for one in entries if one.source is None or not one.n_rows or self._takes(one.id, one.source)]

    def new_rows_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same for rows of the log."""
        names = batch.column("source")
        rows = np.flatnonzero(names.is_valid().to_numpy(zero_copy_only=False))
        if not len(rows):
            return batch
        ms, seq, offsets = (batch.column(name).take(pa.array(rows)).to_numpy() for name in ("ms", "seq", "offset"))
        first = np.flatnonzero(np.append(True, (ms[1:] != ms[:-1]) | (seq[1:] != seq[:-1])))
        entries = zip(ms[first], seq[first], names.take(pa.array(rows[first])).to_pylist(), offsets[first], strict=True)
        are_new = [self._takes(StreamId(int(m), int(s)), Source(name, int(offset))) for m, s, name, offset in entries]
        keep = np.ones(batch.num_rows, dtype=np.bool_)
        keep[rows] = np.repeat(are_new, np.diff(np.append(first, len(rows))))
        return batch if all(are_new) else batch.filter(pa.array(keep))

    def _takes(self, position: StreamId, source: Source) -> bool:
        mark = self._marks.get(source.name)
        if mark is not None and source.offset <= mark.offset and position != mark.entry:
            return False
        self._marks.pop(source.name, None)
        self._marks[source.name] = _Mark(source.offset, position)
        if len(self._marks) > MAX_SOURCES:
            del self._marks[next(iter(self._marks))]
        return True
