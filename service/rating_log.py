"""`RatingLog`: every rating ever acknowledged, as Parquet segments in DATA/ratings.

A segment is named `<first stream id>_<last stream id>.parquet` and holds whole entries only. It is written under a
temporary name, synced and renamed, so the name is the commit. Readers take segments in order of their first id and skip
every position at or below the last one read: overlaps are harmless, and merging or rewriting needs no agreement.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from service.events import ZERO, Entry, StreamId
from service.segment import behind, entries_of, holds, plain, read_groups, without, write_groups

ROWS_PER_GROUP = 131_072  # what a reader holds at a time
MERGE_AT = 8  # so many adjacent segments of about one size become one
MERGED_BYTES = 64 << 20  # larger segments are left alone

_NAME = re.compile(r"(\d{16,})\.(\d{8,})_(\d+)\.(\d+)\.parquet", re.ASCII)
_TEMPORARY = ".tmp-"
_MAINTENANCE_LOCK = ".maintenance.lock"
_SMALLEST_TIER_BYTES = 16 << 10


class Segment(NamedTuple):
    """One file of the log: entries from `first` to `last`, both included."""

    first: StreamId
    last: StreamId
    path: Path


class RatingLog:
    """The folder of segments. One process appends (see `service.archiver`), any number read."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def segments(self) -> list[Segment]:
        """Every segment, in order of first id; of two with the same one the longer comes first."""
        found = []
        for path in self.folder.iterdir():
            if match := _NAME.fullmatch(path.name):
                ms, seq, last_ms, last_seq = map(int, match.groups())
                found.append(Segment(StreamId(ms, seq), StreamId(last_ms, last_seq), path))
        return sorted(found, key=lambda s: (s.first, (-s.last.ms, -s.last.seq)))

    def last_id(self) -> StreamId:
        """Everything up to this id is in the log; `ZERO` if it is empty."""
        return max((segment.last for segment in self.segments()), default=ZERO)

    # --- writing

    def write(self, first: StreamId, last: StreamId, groups: Iterable[pa.Table]) -> Segment:
        """Write the rows of all entries from `first` to `last` as one segment; durable when this returns.

        Args:
            first, last: noops and bad entries (as noops), which leave no row, count for them.
            groups: a table becomes a row group, so each holds whole entries; in order.

        Raises:
            OSError: the disk is full or broken; nothing was written, and the same can be tried again.
        """
        name = f"{first.ms:016d}.{first.seq:08d}_{last.ms}.{last.seq}.parquet"
        temporary = self.folder / f"{_TEMPORARY}{os.getpid()}-{name}"
        try:
            with temporary.open("wb") as file:
                write_groups(file, groups)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(self.folder / name)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(self.folder)
        return Segment(first, last, self.folder / name)

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
        cursor, remaining = after, self.segments()
        while remaining:
            segment = remaining.pop(0)
            if segment.last <= cursor:
                continue
            try:
                for batch in read_groups(segment.path, wanted):
                    yield batch if segment.first > cursor else behind(batch, cursor)
            except FileNotFoundError:  # merged into another one meanwhile: list again
                remaining = self.segments()
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

    # --- maintenance: merging and rewriting exclude each other across processes

    def clean(self) -> None:
        """Remove what a killed writer left: temporary files, and segments that a merged one covers."""
        with self._maintenance(wait=False) as is_ours:
            if is_ours:
                for path in self.folder.glob(f"{_TEMPORARY}*"):
                    path.unlink(missing_ok=True)
                self._remove_covered()

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

        Waits while another process merges. A reader that has a segment open still sees its old content.

        Raises:
            OSError: the disk is full; segments done so far stay done.
            CorruptLog: a segment is torn or altered.
        """
        with self._maintenance(wait=True):
            holding = [s for s in self.segments() if s.first < before and holds(s.path, user)]
            for segment in holding:
                kept = (plain(without(batch, user, before)) for batch in read_groups(segment.path, None))
                self.write(segment.first, segment.last, kept)
            return len(holding)

    def _merge(self, run: list[Segment]) -> None:
        last = max(segment.last for segment in run)
        merged = self.write(run[0].first, last, _rows_of(run))
        for segment in run:
            if segment.path != merged.path:
                segment.path.unlink(missing_ok=True)

    def _remove_covered(self) -> None:
        cursor = ZERO
        for segment in self.segments():
            if segment.last <= cursor:
                segment.path.unlink(missing_ok=True)
            cursor = max(cursor, segment.last)

    @contextlib.contextmanager
    def _maintenance(self, *, wait: bool) -> Iterator[bool]:
        with (self.folder / _MAINTENANCE_LOCK).open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True


def _rows_of(run: list[Segment]) -> Iterator[pa.Table]:
    """Rows of overlapping segments in order, each once, in groups of a good size."""
    cursor, n_held = ZERO, 0
    held: list[pa.Table] = []
    for segment in run:
        for batch in read_groups(segment.path, None):
            held.append(plain(behind(batch, cursor)))
            n_held += held[-1].num_rows
            if n_held >= ROWS_PER_GROUP:
                yield pa.concat_tables(held)
                held, n_held = [], 0
        cursor = max(cursor, segment.last)
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


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
