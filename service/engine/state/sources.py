"""`SourceMarks`: how far each source of batches has come, so that a batch which is delivered twice counts once.

A queue delivers a batch again if it did not hear that the batch was taken. Meanwhile others may have changed the same
ratings, and the batch must not undo that. Whether an entry counts depends on the entries before it alone, so a replay,
a restart and every replica decide alike. That holds for names that are dropped, too: see `MAX_SOURCES`.

Each key has its own sources, so that none can move those of another one. Only the marks of entries without a key hold
for all keys that have not come further under that name themselves: the service may get its keys later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from service.engine.queries.source_queries import (
    CheckSource,
    FindSource,
    ListedSource,
    ListSources,
    OffsetTooFar,
    SourceList,
    SourceTold,
    TooManySources,
    WasSkipped,
)
from service.storage.events import Entry, StreamId
from service.storage.sources import Source, Unmark

MAX_OF_KEY = 1_000  # names that a key may introduce; further ones are refused until an admin removes some
MAX_SOURCES, MAX_SOURCES_OF_ALL = 10_000, 100_000  # of a key, and of all, however they came; one takes up to 600 bytes
MAX_GAP = 100_000_000  # from one offset of a source to the next; a queue leaves out fewer, and an error more
N_SKIPPED = 10_000  # skipped entries that are remembered, for those who ask at once


class _Mark(NamedTuple):
    offset: int
    entry: StreamId  # which came that far: the rows of one entry may come in two pieces


class SourceMarks:
    """The highest offset of each of the `MAX_SOURCES` sources of a key that advanced last.

    Of all keys together it has `MAX_SOURCES_OF_ALL`; one more drops a source of the key that has most. Entries are
    expected in order.
    """

    def __init__(self) -> None:
        self._marks: dict[str, dict[str, _Mark]] = {}  # by owner and name; the source that advanced last comes last
        self._n_marks = 0
        self._skipped: dict[StreamId, None] = {}  # the newest last

    def new_of(self, entries: Sequence[Entry]) -> list[Entry]:
        """`entries` without those that repeat what their source has delivered before.

        An entry without rows is not in the log, so it must leave no trace here.
        """
        return [one for one in entries if one.source is None or not one.n_rows or self._takes(one.id, one.source)]

    def new_rows_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same for rows of the log; those of `unmark` take effect here, and do not come back."""
        names = batch.column("source")
        rows = np.flatnonzero(names.is_valid().to_numpy(zero_copy_only=False))
        if not len(rows):
            return batch
        ms, seq = (batch.column(name).take(pa.array(rows)).to_numpy() for name in ("ms", "seq"))
        first = np.flatnonzero(np.append(True, (ms[1:] != ms[:-1]) | (seq[1:] != seq[:-1])))
        firsts = pa.array(rows[first])
        columns = (batch.column(name).take(firsts).to_pylist() for name in ("source", "offset", "owner"))
        entries = zip(ms[first].tolist(), seq[first].tolist(), *columns, strict=True)
        are_new = []
        for entry_ms, entry_seq, name, offset, owner in entries:
            if offset is None:
                self.unmark(Unmark(name, owner))
                are_new.append(False)
            else:
                are_new.append(self._takes(StreamId(entry_ms, entry_seq), Source(name, offset, owner or "")))
        keep = np.ones(batch.num_rows, dtype=np.bool_)
        keep[rows] = np.repeat(are_new, np.diff(np.append(first, len(rows))))
        return batch if all(are_new) else batch.filter(pa.array(keep))

    def unmark(self, unmark: Unmark) -> None:
        """Forget how far a source has come."""
        for owner in list(self._marks) if unmark.owner is None else [unmark.owner]:
            if unmark.name in self._marks.get(owner, ()):
                self._drop(owner, unmark.name)

    # --- queries

    def check(self, query: CheckSource, as_of: str) -> SourceTold:
        """Check that a batch may be sent; whether it repeats an earlier one shows only when it is applied.

        Raises:
            OffsetTooFar: its offset is more than `MAX_GAP` above that of the batch before.
            TooManySources: it has a new source, and its key has `MAX_OF_KEY`.
        """
        source = query.source
        mark = self._mark(source)
        if mark is None and len(self._marks.get(source.owner, ())) >= MAX_OF_KEY:
            raise TooManySources(
                f"Invalid X-Source: expected one of the {MAX_OF_KEY:,} that this key has named before, got another"
                " one; let an admin remove those that are not needed any more: DELETE /admin/sources/{source}"
            )
        if mark is not None and source.offset - mark.offset > MAX_GAP:
            raise OffsetTooFar(
                f"Invalid X-Offset of {source.name!r}: expected at most {mark.offset + MAX_GAP:,}, which is"
                f" {MAX_GAP:,} above the last one, {mark.offset:,}; got {source.offset:,}. If the queue starts again"
                " here, name another X-Source, or let an admin remove the mark: DELETE /admin/sources/{source}"
            )
        return SourceTold(was_skipped=False, as_of=as_of)

    def was_skipped(self, query: WasSkipped, as_of: str) -> SourceTold:
        """Whether an entry, which has been applied lately, was skipped."""
        return SourceTold(StreamId.parse(query.stream_id) in self._skipped, as_of)

    def list(self, query: ListSources, as_of: str) -> SourceList:
        """A page of all sources, the one that advanced last first."""
        sources = sorted(
            (self._listed(owner, name) for owner, marks in self._marks.items() for name in marks),
            key=lambda source: (StreamId.parse(source.stream_id), source.source),
            reverse=True,
        )
        return SourceList(sources[query.offset : query.offset + query.n], len(sources), as_of)

    def find(self, query: FindSource, as_of: str) -> SourceList:
        """The sources of a name, perhaps none."""
        owners = [owner for owner, marks in self._marks.items() if query.name in marks]
        owners = owners if query.owner is None else [owner for owner in owners if owner == query.owner]
        return SourceList([self._listed(owner, query.name) for owner in owners], len(owners), as_of)

    # --- marks

    def _mark(self, source: Source) -> _Mark | None:
        mark = self._marks.get(source.owner, {}).get(source.name)
        return mark or self._marks.get("", {}).get(source.name)

    def _takes(self, position: StreamId, source: Source) -> bool:
        mark = self._mark(source)
        if mark is not None and source.offset <= mark.offset and position != mark.entry:
            self._skipped[position] = None
            if len(self._skipped) > N_SKIPPED:
                del self._skipped[next(iter(self._skipped))]
            return False
        marks = self._marks.setdefault(source.owner, {})
        self._n_marks += source.name not in marks
        marks.pop(source.name, None)
        marks[source.name] = _Mark(source.offset, position)
        if len(marks) > MAX_SOURCES:
            self._drop(source.owner, next(iter(marks)))
        elif self._n_marks > MAX_SOURCES_OF_ALL:
            owner = max(self._marks, key=lambda one: len(self._marks[one]))
            self._drop(owner, next(iter(self._marks[owner])))
        return True

    def _drop(self, owner: str, name: str) -> None:
        del self._marks[owner][name]
        self._n_marks -= 1
        if not self._marks[owner]:
            del self._marks[owner]

    def _listed(self, owner: str, name: str) -> ListedSource:
        mark = self._marks[owner][name]
        return ListedSource(name, owner or None, mark.offset, str(mark.entry))
