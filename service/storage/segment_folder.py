"""`SegmentFolder`: the files of the rating log, each compared with the manifest before it is read.

A segment that the manifest does not list was written by an older version, or by a process that was killed before it
could list it: it is read all the same, and `seal` lists it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from service.errors import CorruptLog
from service.storage import files
from service.storage.events import ZERO, StreamId
from service.storage.files import FileLock
from service.storage.log_manifest import LogManifest, Sum
from service.storage.segment import check_rows, read_groups, write_groups

_NAME = re.compile(r"(\d{16,})\.(\d{8,})_(\d+)\.(\d+)\.parquet", re.ASCII)
_TEMPORARY = ".tmp-"
_LOCK, _LOCK_TIMEOUT_S = ".writing.lock", 60.0  # nobody writes a segment for so long
_ATTEMPTS = 3  # a segment may be rewritten between two looks


class Segment(NamedTuple):
    """One file of the log: entries from `first` to `last`, both included."""

    first: StreamId
    last: StreamId
    path: Path


class SegmentFolder:
    """List, check, read and write segments. One process appends, one at a time rewrites, any number read."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is made where it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder
        self._manifest = LogManifest(folder)
        self._intact: dict[str, tuple[int, int, int]] = {}  # name of a segment to the file that was compared

    def segments(self) -> list[Segment]:
        """Every segment, in order of first id; of two with the same one the longer comes first."""
        found = []
        for path in self.path.iterdir():
            if span := _span_of(path.name):
                found.append(Segment(*span, path))
        return sorted(found, key=lambda s: (s.first, (-s.last.ms, -s.last.seq)))

    def check(self) -> list[Segment]:
        """The segments, once it is clear that all are there and have their size; cheap.

        Raises:
            CorruptLog: one is missing or has another size, or the manifest is altered.
        """
        sums = self._manifest.read()  # first: what is merged meanwhile is covered by what is there
        segments = self.segments()
        there = {segment.path.name: segment for segment in segments}
        for name in sums:
            if name in there:
                self._check_size(there[name].path, sums[name])
            elif not _is_covered(name, segments):
                raise CorruptLog(
                    f"Invalid rating log: expected the segment {self.path / name}, which {self._manifest.path.name}"
                    f" lists, got none; restore it from a backup, or, if its ratings are lost, remove"
                    f" {self._manifest.path} too: it is made again from what is there"
                )
        return segments

    def _check_size(self, path: Path, sums: list[Sum]) -> None:
        with contextlib.suppress(FileNotFoundError):
            for known in (sums, self._manifest.read().get(path.name, [])):  # it may just have been rewritten
                n_bytes = path.stat().st_size
                if n_bytes in [one.n_bytes for one in known]:
                    return
            raise _altered(path, sums, f"{n_bytes:,} bytes")

    def seal(self) -> int:
        """List what is not listed, once it was read from end to end; how many segments that were.

        Raises:
            CorruptLog: one is torn or altered, or see `check`.
            OSError: the disk is full; nothing has changed.
        """
        known = self._manifest.read()
        unlisted = [s for s in self.check() if len(known.get(s.path.name, ())) != 1]
        found = {s.path.name: summed for s in unlisted if (summed := self._sum_of_intact(s)) is not None}
        if not found and self._manifest.path.exists():
            return 0
        with self._manifest.changing() as sums:
            segments = self.segments()
            there = {segment.path.name for segment in segments}
            sums |= {name: [one] for name, one in found.items() if name in there and sums.get(name) == known.get(name)}
            kept = {name: one for name, one in sums.items() if name in there or not _is_covered(name, segments)}
            self._manifest.store(kept)
        return len(found)

    def _sum_of_intact(self, segment: Segment) -> Sum | None:
        """None if it is gone, merged into another one."""
        with contextlib.suppress(FileNotFoundError):
            for batch in self.groups(segment, None):
                check_rows(batch, segment.first, segment.last, segment.path)
            with files.open_regular(segment.path) as file:
                return Sum.of(file)
        return None

    def groups(self, segment: Segment, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        """Row groups of a segment. Raises as `segment.read_groups`; CorruptLog also if it is not as listed."""
        yield from read_groups(segment.path, columns, self._opened(segment.path))

    def _opened(self, path: Path) -> BufferedReader:
        """The segment at `path`, compared with the manifest once for each file that has the name."""
        found, sums = None, list[Sum]()
        for _ in range(_ATTEMPTS):
            try:
                file = files.open_regular(path)
                status = os.fstat(file.fileno())
                identity = status.st_ino, status.st_size, status.st_mtime_ns
                if self._intact.get(path.name) == identity:
                    return file
                found = Sum.of(file)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise CorruptLog(f"Invalid segment {path}: expected a file that can be read, got: {error}") from error
            sums = self._manifest.read().get(path.name, [])
            if not sums:  # an older version wrote it, or it is just being listed
                return file
            if found in sums:
                self._intact[path.name] = identity
                return file
            file.close()
        raise _altered(path, sums, str(found))

    # --- writing

    def write(
        self, first: StreamId, last: StreamId, groups: Iterable[pa.Table], replaced: Iterable[str] = ()
    ) -> Segment:
        """Write the rows of all entries from `first` to `last` as one segment; durable when this returns.

        Args:
            first, last: noops and bad entries (as noops), which leave no row, count for them.
            groups: a table becomes a row group, so each holds whole entries; in order.
            replaced: names of segments that are not listed any more, and that the caller then removes.

        Raises:
            OSError: the disk is full or broken; the same can be tried again.
            CorruptLog: the manifest is torn or altered; nothing was written.
        """
        name = f"{first.ms:016d}.{first.seq:08d}_{last.ms}.{last.seq}.parquet"
        temporary = self.path / f"{_TEMPORARY}{os.getpid()}-{name}"
        with FileLock.take(self.path / _LOCK, _LOCK_TIMEOUT_S, shared=True):
            try:
                with temporary.open("wb") as file:
                    write_groups(file, groups)
                    file.flush()
                    files.fsync(file.fileno())
                self._publish(temporary, name, replaced)
            except BaseException:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise
        return Segment(first, last, self.path / name)

    def _publish(self, temporary: Path, name: str, replaced: Iterable[str]) -> None:
        """Give the file its name, and list it instead of those that it replaces."""
        with files.open_regular(temporary) as file:
            written = Sum.of(file)
        with self._manifest.changing() as sums:
            if name in sums:
                self._manifest.store({**sums, name: [*sums[name], written]})
            files.rename(temporary, self.path / name)
            files.sync(self.path)
            kept = {listed: sums[listed] for listed in sums.keys() - set(replaced)}
            self._manifest.store({**kept, name: [written]})

    def remove(self, segments: Iterable[Segment]) -> None:
        """Remove segments that another one covers."""
        gone = [segment.path for segment in segments]
        if gone:
            with self._manifest.changing() as sums:
                self._manifest.store({name: listed for name, listed in sums.items() if self.path / name not in gone})
        for path in gone:
            path.unlink(missing_ok=True)

    def remove_temporaries(self) -> None:
        """Remove the files of writers that were killed, once no living one writes."""
        with FileLock.take(self.path / _LOCK, _LOCK_TIMEOUT_S):
            for path in self.path.glob(f"{_TEMPORARY}*"):
                path.unlink(missing_ok=True)


def _is_covered(name: str, segments: list[Segment]) -> bool:
    """Whether another segment has what `name` had: it was merged."""
    first, last = _span_of(name) or (ZERO, ZERO)
    return any(segment.first <= first and segment.last >= last for segment in segments)


def _span_of(name: str) -> tuple[StreamId, StreamId] | None:
    """First and last id of the segment of this name; None if it is not the name of one."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    ms, seq, last_ms, last_seq = map(int, match.groups())
    return StreamId(ms, seq), StreamId(last_ms, last_seq)


def _altered(path: Path, sums: list[Sum], found: str) -> CorruptLog:
    expected = " or ".join(map(str, sums))
    return CorruptLog(
        f"Invalid segment {path}: expected {expected}, as the manifest beside it says, got {found}: it is torn or"
        f" altered; restore it from a backup, or move it and the manifest away if its ratings are lost"
    )
