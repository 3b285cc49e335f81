"""`RatingLog`: every rating ever acknowledged, as Parquet segments in DATA/ratings.

A segment is named `<first stream id>_<last stream id>.parquet` and holds whole entries only. It is written under a
temporary name, synced and renamed, so the name is the commit. Readers take segments in order of their first id and skip
every position at or below the last one read: overlaps are harmless, and merging or rewriting needs no agreement.

What each segment holds and that none is missing is told by `manifest.json` (`service.storage.log_manifest`), with which
every segment is compared before it is read (`service.storage.segment_folder`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from service.storage.events import ZERO, Entry, StreamId
from service.storage.files import FileLock
from service.storage.introductions import COLUMNS, introduced_by, without
from service.storage.segment import behind, entries_of, forgotten_in, holds, plain
from service.storage.segment_folder import Segment, SegmentFolder

ROWS_PER_GROUP = 131_072  # what a reader holds at a time
MERGE_AT = 8  # so many adjacent segments of about one size become one
MERGED_BYTES = 64 << 20  # larger segments are left alone

_MAINTENANCE_LOCK, _MAINTENANCE_TIMEOUT_S = ".maintenance.lock", 600.0  # a merge is of half a gigabyte at most
_SMALLEST_TIER_BYTES = 16 << 10


class RatingLog:
    """The folder of segments. One process appends (see `service.storage.archiver`), any number read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = SegmentFolder(folder)

    def segments(self) -> list[Segment]:
        """Every segment, in order of first id; of two with the same one the longer comes first."""
        return self._files.segments()

    def check(self) -> None:
        """Return if every segment that was ever written is there and has its size; cheap.

        Raises:
            CorruptLog: one is not.
        """
        self._files.check()

    def last_id(self) -> StreamId:
        """Everything up to this id is in the log; `ZERO` if it is empty."""
        return max((segment.last for segment in self.segments()), default=ZERO)

    def write(self, first: StreamId, last: StreamId, groups: Iterable[pa.Table]) -> Segment:
        """`SegmentFolder.write`: durable and listed when this returns."""
        return self._files.write(first, last, groups)

    # --- reading

    def read(self, after: StreamId = ZERO, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Rows behind `after` in order of position, in batches of one row group; strings dictionary-encoded.

        Args:
            after: rows at or below this id are skipped.
            columns: names to read beside ms and seq. Default: all.

        Raises:
            CorruptLog: a segment is torn or altered.
        """
        wanted = None if columns is None else ["ms", "seq", *columns]
        cursor, remaining = after, self._files.check()
        while remaining:
            segment = remaining.pop(0)
            if segment.last <= cursor:
                continue
            try:
                for batch in self._files.groups(segment, wanted):
                    yield batch if segment.first > cursor else behind(batch, cursor)
            except FileNotFoundError:  # merged into another one meanwhile: list again
                remaining = self._files.check()
                continue
            cursor = segment.last

    def entries(self, after: StreamId, upto: StreamId) -> Iterator[list[Entry]]:
        """Entries behind `after` up to `upto`, a row group at a time.

        Raises:
            CorruptLog: a segment is torn or altered.
        """
        for batch in self.read(after):
            found = entries_of(batch)
            if wanted := [entry for entry in found if entry.id <= upto]:
                yield wanted
            if found and found[-1].id > upto:
                return

    def forgotten_since(self, after: StreamId) -> list[str]:
        """Users whom entries behind `after` forget, in order. Raises as `read`."""
        return [user for batch in self.read(after, ["kind", "user"]) for user in forgotten_in(batch)]

    # --- maintenance: merging and rewriting exclude each other across processes

    def clean(self) -> None:
        """Remove what a killed writer left: temporary files, and segments that a merged one covers; list what is not.

        Raises:
            CorruptLog, OSError: see `SegmentFolder.seal`.
        """
        self.remove_temporaries()
        self._files.seal()
        with self._maintenance(wait=False) as is_ours:
            if is_ours:
                self._remove_covered()

    def remove_temporaries(self) -> None:
        """Remove the files of writers that were killed, once no living one writes."""
        self._files.remove_temporaries()

    def compact(self) -> int:
        """Merge runs of small adjacent segments; how many segments went. Drops no row.

        Does nothing while another process merges or rewrites. Costs reading and writing what is merged: every row
        about once per factor of eight in size.

        Raises:
            OSError: the disk is full; nothing is lost.
            CorruptLog: a segment is torn or altered.
        """
        with self._maintenance(wait=False) as is_ours:
            n_gone = 0
            while is_ours and (run := _mergeable(self.segments())):
                self._merge(run)
                n_gone += len(run) - 1
            return n_gone

    def rewrite_without(self, user: str, before: StreamId) -> int:
        """Drop every row of `user` below the position `before`; how many segments were rewritten.

        Where the user was the first to name an item a row stays that names the item alone: see
        `service.storage.introductions`.

        Waits while another process merges. A reader that has a segment open still sees its old content.

        Raises:
            OSError: the disk is full; segments done so far stay done.
            CorruptLog: a segment is torn or altered.
        """
        with self._maintenance(wait=True):
            earlier = [segment for segment in self._files.check() if segment.first < before]
            holding = [segment for segment in earlier if holds(self._files.groups(segment, ["user"]), user)]
            introduced = introduced_by(user, before, lambda: self.read(columns=COLUMNS)) if holding else set()
            for segment in holding:
                kept = (plain(without(batch, user, before, introduced)) for batch in self._files.groups(segment, None))
                self._files.write(segment.first, segment.last, kept)
            return len(holding)

    def _merge(self, run: list[Segment]) -> None:
        last = max(segment.last for segment in run)
        rows = ((segment.last, self._files.groups(segment, None)) for segment in run)
        merged = self._files.write(run[0].first, last, _rows_of(rows), [segment.path.name for segment in run])
        for segment in run:
            if segment.path != merged.path:
                segment.path.unlink(missing_ok=True)

    def _remove_covered(self) -> None:
        cursor, covered = ZERO, list[Segment]()
        for segment in self.segments():
            if segment.last <= cursor:
                covered.append(segment)
            cursor = max(cursor, segment.last)
        self._files.remove(covered)

    @contextlib.contextmanager
    def _maintenance(self, *, wait: bool) -> Iterator[bool]:
        path = self.folder / _MAINTENANCE_LOCK
        lock = FileLock.take(path, _MAINTENANCE_TIMEOUT_S) if wait else FileLock.try_take(path)
        if lock is None:
            yield False
        else:
            with lock:
                yield True


def _rows_of(run: Iterable[tuple[StreamId, Iterator[pa.RecordBatch]]]) -> Iterator[pa.Table]:
    """Rows of overlapping segments in order, each once, in groups of a good size."""
    cursor, n_held = ZERO, 0
    held: list[pa.Table] = []
    for last, groups in run:
        for batch in groups:
            held.append(plain(behind(batch, cursor)))
            n_held += held[-1].num_rows
            if n_held >= ROWS_PER_GROUP:
                yield pa.concat_tables(held)
                held, n_held = [], 0
        cursor = max(cursor, last)
    if held:
        yield pa.concat_tables(held)


def _mergeable(segments: list[Segment]) -> list[Segment]:
    """A run of adjacent segments of about one size or smaller, long enough to be merged; empty if there is none."""
    tiers = [_tier(segment.path.stat().st_size) for segment in segments]
    for tier in range(_tier(MERGED_BYTES)):
        run: list[Segment] = []
        for segment, its_tier in zip(segments, tiers, strict=True):
            if its_tier <= tier:
                run.append(segment)
            elif len(run) >= MERGE_AT:
                break
            else:
                run = []
        if len(run) >= MERGE_AT:
            return run
    return []


def _tier(n_bytes: int) -> int:
    """0 for the smallest segments, one more for every factor of `MERGE_AT`."""
    return max(0, math.ceil(math.log(n_bytes / _SMALLEST_TIER_BYTES, MERGE_AT)))
