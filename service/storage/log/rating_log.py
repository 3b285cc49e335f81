"""`RatingLog`: all acknowledged ratings, as Parquet segments in DATA/ratings.

A segment is named `<first stream id>_<last stream id>.parquet` and has whole entries only. It is written under a
temporary name, synced and renamed, so the rename is the commit. Readers take segments in order of their first id and
skip every position at or below the last one read. Overlaps are therefore harmless, and merging or rewriting needs no
agreement with readers.

`manifest.json` (`service.storage.log.log_manifest`) lists all segments with their checksums. Every segment is
compared with it before it is read (`service.storage.log.segment_folder`).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from service.storage.events import ZERO, Entry, StreamId
from service.storage.files import FileLock
from service.storage.log.introductions import COLUMNS, introduced_by, without
from service.storage.log.ownership import COLUMNS as END_COLUMNS
from service.storage.log.ownership import Owners
from service.storage.log.segment import behind, entries_of, holds, plain
from service.storage.log.segment_folder import Segment, SegmentFolder, last_of

ROWS_PER_GROUP = 131_072  # rows that a reader has in memory
MERGE_AT = 8  # adjacent segments of similar size that are merged into one
MERGED_BYTES = 64 << 20  # bytes; larger segments are not merged

_MAINTENANCE_LOCK, _MAINTENANCE_TIMEOUT_S = ".maintenance.lock", 600.0  # a merge has at most half a gigabyte
_SMALLEST_TIER_BYTES = 16 << 10


class RatingLog:
    """The folder of segments. One process appends (see `service.storage.archiver`), any number of processes read.

    Attributes:
        folder: its path.
        files: the segments in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = SegmentFolder(folder)

    @classmethod
    def of(cls, data: Path) -> RatingLog:
        """The rating log in a data folder.

        Raises:
            FileNotFoundError: the folder has none.
        """
        folder = data / "ratings"
        if not folder.is_dir():
            raise FileNotFoundError(f"Invalid data folder {data}: expected a folder ratings in it, got none")
        return cls(folder)

    def last_id(self) -> StreamId:
        """The log has all entries up to this id; `ZERO` if it is empty."""
        return last_of(entry.name for entry in os.scandir(self.folder))

    # --- reading

    def read(self, after: StreamId = ZERO, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Rows after `after` in order of position, in batches of one row group; strings are dictionary-encoded.

        Args:
            after: rows at or below this id are skipped.
            columns: names to read in addition to ms and seq. Default: all.

        Raises:
            CorruptLog: a segment is torn or altered.
        """
        wanted = None if columns is None else ["ms", "seq", *columns]
        cursor, remaining = after, self.files.check()
        while remaining:
            segment = remaining.pop(0)
            if segment.last <= cursor:
                continue
            try:
                for batch in self.files.groups(segment, wanted):
                    yield batch if segment.first > cursor else behind(batch, cursor)
            except FileNotFoundError:  # merged into another one meanwhile: list again
                remaining = self.files.check()
                continue
            cursor = segment.last

    def entries(self, after: StreamId, upto: StreamId) -> Iterator[list[Entry]]:
        """Entries after `after` up to `upto`, one row group at a time.

        Raises:
            CorruptLog: a segment is torn or altered.
        """
        for batch in self.read(after):
            entries = entries_of(batch)
            if wanted := [entry for entry in entries if entry.id <= upto]:
                yield wanted
            if entries and entries[-1].id > upto:
                return

    def known(self, entries: Sequence[Entry]) -> set[StreamId]:
        """The ids of those of `entries`, in order, that the log has, or had until their users were forgotten.

        Further ids of the log may be among them. Raises what `read` raises.
        """
        before = StreamId(entries[0].id.ms - 1, 0)
        ids = {entry.id for some in self.entries(before, entries[-1].id) for entry in some}
        if gone := [entry for entry in entries if entry.id not in ids and entry.users]:
            owners = self.owners()
            ids |= {
                entry.id for entry in gone if all(owners.owner(user, entry.id, ZERO) is None for user in entry.users)
            }
        return ids

    def owners(self, after: StreamId = ZERO) -> Owners:
        """Who was forgotten, or became part of another user, after `after`. Raises what `read` raises."""
        return Owners(self.read(after, END_COLUMNS))

    def forgotten_since(self, after: StreamId) -> list[str]:
        """The ids at `after` of the users whom later entries forget, in order. Raises what `read` raises."""
        owners = self.owners(after)
        parts = [part for user, position in owners.forgotten for part in owners.parts(user, position)]
        return [part.user for part in parts if part.after <= after]

    def ids_of(self, user: str, before: StreamId) -> set[str]:
        """`user`, and the ids of all who have become part of this user, in entries before `before`."""
        return {part.user for part in self.owners().parts(user, before)}

    # --- maintenance: merging and rewriting exclude each other across processes

    def clean(self) -> None:
        """Clean up after killed writers: remove temporary files and merged segments, and list unlisted segments.

        Raises:
            CorruptLog, OSError: see `SegmentFolder.seal`.
        """
        self.files.remove_temporaries()
        self.files.seal()
        with self._maintenance(wait=False) as is_ours:
            if is_ours:
                cursor, covered = ZERO, list[Segment]()
                for segment in self.files.segments():
                    if segment.last <= cursor:
                        covered.append(segment)
                    cursor = max(cursor, segment.last)
                self.files.remove(covered)

    def compact(self) -> int:
        """Merge runs of small adjacent segments; return the number of removed segments. Drops no row.

        Does nothing while another process merges or rewrites. Over time it reads and writes every row about once per
        factor of eight in segment size.

        Raises:
            OSError: the disk is full; nothing is lost.
            CorruptLog: a segment is torn or altered.
        """
        with self._maintenance(wait=False) as is_ours:
            n_gone = 0
            while is_ours and (run := run_to_merge(self.files.segments())):
                last = max(segment.last for segment in run)
                rows = rows_of((segment.last, self.files.groups(segment, None)) for segment in run)
                merged = self.files.write(run[0].first, last, rows, [segment.path.name for segment in run])
                for segment in run:
                    if segment.path != merged.path:
                        segment.path.unlink(missing_ok=True)
                n_gone += len(run) - 1
            return n_gone

    def rewrite_without(self, user: str, before: StreamId) -> int:
        """Drop every row of `user` below the position `before`; return the number of rewritten segments.

        So are those of users who had become part of this one. If one of them was the first to rate an item, a row that
        names only the item stays: see `service.storage.log.introductions`. Waits while another process merges. A reader
        that has a segment open still sees the old content.

        Raises:
            OSError: the disk is full; segments done so far stay done.
            CorruptLog: a segment is torn or altered.
        """
        with self._maintenance(wait=True):
            earlier = [segment for segment in self.files.check() if segment.first < before]
            parts = self.owners().parts(user, before)
            users = {part.user for part in parts}
            holding = [segment for segment in earlier if holds(self.files.groups(segment, ["user"]), users)]
            introduced = introduced_by(parts, lambda: self.read(columns=COLUMNS)) if holding else set()
            for segment in holding:
                rest = (plain(without(batch, parts, introduced)) for batch in self.files.groups(segment, None))
                self.files.write(segment.first, segment.last, rest)
            return len(holding)

    @contextlib.contextmanager
    def _maintenance(self, *, wait: bool) -> Iterator[bool]:
        path = self.folder / _MAINTENANCE_LOCK
        lock = FileLock.take(path, _MAINTENANCE_TIMEOUT_S) if wait else FileLock.try_take(path)
        if lock is None:
            yield False
        else:
            with lock:
                yield True


def rows_of(run: Iterable[tuple[StreamId, Iterator[pa.RecordBatch]]]) -> Iterator[pa.Table]:
    """Rows of overlapping segments in order, each once, in groups of about `ROWS_PER_GROUP`."""
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


def run_to_merge(segments: list[Segment]) -> list[Segment]:
    """A run of at least `MERGE_AT` adjacent segments of about one size or smaller; empty if there is none."""
    tiers = [tier_of(segment.path.stat().st_size) for segment in segments]
    for tier in range(tier_of(MERGED_BYTES)):
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


def tier_of(n_bytes: int) -> int:
    """0 for the smallest segments, one more for every factor of `MERGE_AT`."""
    return max(0, math.ceil(math.log(n_bytes / _SMALLEST_TIER_BYTES, MERGE_AT)))
