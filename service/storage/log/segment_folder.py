"""`SegmentFolder`: the files of the rating log, each compared with the manifest before it is read.

A segment that the manifest does not list comes from an older version, or from a process that was killed before it could
list it. It is read nevertheless, and `seal` lists it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO, NamedTuple

import pyarrow as pa

from service.storage import files
from service.storage.errors import CorruptLog
from service.storage.events import ZERO, StreamId
from service.storage.files import FileLock
from service.storage.log.log_manifest import MANIFEST_FILE, LogManifest, Sum, Sums
from service.storage.log.segment import check_rows, read_groups, write_groups

_NAME = re.compile(r"(\d{16,})\.(\d{8,})_(\d+)\.(\d+)\.parquet", re.ASCII)
_TEMPORARY = ".tmp-"
_LOCK, _LOCK_TIMEOUT_S = ".writing.lock", 60.0  # seconds; longer than any write of a segment
_ATTEMPTS = 3  # comparisons with the manifest; a segment may be rewritten meanwhile

Identity = tuple[int, int, int] | None  # of a file: another one under its name differs; None: there is none


class Segment(NamedTuple):
    """One file of the log: entries from `first` to `last`, both included."""

    first: StreamId
    last: StreamId
    path: Path


class SegmentFolder:
    """Lists, checks, reads and writes segments. One process appends, one at a time rewrites, any number read."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`; create it if needed."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder
        self._manifest = LogManifest(folder)
        self._intact: dict[str, Identity] = {}  # by name of a segment: the file that was verified

    def segments(self) -> list[Segment]:
        """All segments in order of first id; of two with the same first id the longer comes first."""
        segments = []
        for path in self.path.iterdir():
            if span := span_of(path.name):
                first, last = span
                segments.append(Segment(first, last, path))
        return sorted(segments, key=lambda s: (s.first, (-s.last.ms, -s.last.seq)))

    def listed(self) -> Sums:
        """What the manifest lists. Raises what `LogManifest.read` raises."""
        return self._manifest.read()

    def check(self) -> list[Segment]:
        """All segments, after a cheap check that each is there and has its size.

        Raises:
            CorruptLog: a segment is missing or has another size, or the manifest is altered.
        """
        sums = self._manifest.read()  # before the listing: a merge between the two leaves a segment that covers the old
        segments = self.segments()
        there = {segment.path.name: segment for segment in segments}
        for name in sums:
            if name in there:
                self._check_size(there[name].path, sums[name])
            elif not _is_covered(name, segments):
                raise CorruptLog(
                    f"Invalid rating log: expected the segment {self.path / name}, which {self._manifest.path.name}"
                    f" lists, got none; restore it from a backup, or, if its ratings are lost, remove"
                    f" {self._manifest.path} too: it is rebuilt from the segments that are there"
                )
        return segments

    def _check_size(self, path: Path, sums: list[Sum]) -> None:
        with contextlib.suppress(FileNotFoundError):
            present = sums
            for _ in range(2):
                n_bytes = path.stat().st_size
                if n_bytes in [each.n_bytes for each in present]:
                    return
                present = self._manifest.read().get(path.name, [])  # again: it may have been rewritten
            raise _altered(path, sums, f"{n_bytes:,} bytes")

    def seal(self) -> int:
        """List unlisted segments after reading each completely; return their number.

        Raises:
            CorruptLog: a segment is torn or altered, or see `check`.
            OSError: the disk is full; nothing has changed.
        """
        listed = self._manifest.read()
        unlisted = [s for s in self.check() if len(listed.get(s.path.name, ())) != 1]
        read = {s.path: summed for s in unlisted if (summed := self._sum_of_intact(s)) is not None}
        if not read and self._manifest.path.exists():
            return 0
        with self._manifest.changing() as sums:
            segments = self.segments()
            there = {segment.path.name for segment in segments}
            # A rewrite that could not list what it renamed has left the list alone, and another file.
            added = {
                path.name: [total]
                for path, (total, identity) in read.items()
                if sums.get(path.name) == listed.get(path.name) and _identity_of(path) == identity
            }
            listings = {
                name: listing
                for name, listing in (sums | added).items()
                if name in there or not _is_covered(name, segments)
            }
            self._manifest.store(listings)
        return len(added)

    def _sum_of_intact(self, segment: Segment) -> tuple[Sum, Identity] | None:
        """The sum of a segment after reading it completely, and of which file; None if it is gone: it was merged."""
        with contextlib.suppress(FileNotFoundError):
            for batch in self.groups(segment, None):
                check_rows(batch, segment.first, segment.last, segment.path)
            with files.open_regular(segment.path) as file:
                return Sum.of(file), _identity_of(file.fileno())
        return None

    def groups(self, segment: Segment, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        """Row groups of a segment. Raises what `read_groups` raises; CorruptLog also if the checksum differs."""
        yield from read_groups(segment.path, columns, self._opened(segment.path))

    def _opened(self, path: Path) -> BufferedReader:
        """Open the segment at `path`, and compare each file of that name with the manifest once."""
        actual, sums = None, list[Sum]()
        for _ in range(_ATTEMPTS):
            try:
                file = files.open_regular(path)
                identity = _identity_of(file.fileno())
                if self._intact.get(path.name) == identity:
                    return file
                actual = Sum.of(file)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise CorruptLog(f"Invalid segment {path}: expected a file that can be read, got: {error}") from error
            sums = self._manifest.read().get(path.name, [])
            if not sums:  # an older version wrote it, or a writer is about to list it
                return file
            if actual in sums:
                self._intact[path.name] = identity
                return file
            file.close()
        raise _altered(path, sums, str(actual))

    # --- writing

    def write(
        self, first: StreamId, last: StreamId, groups: Iterable[pa.Table], replaced: Iterable[str] = ()
    ) -> Segment:
        """Write the rows of all entries from `first` to `last` as one segment; it is durable on return.

        Args:
            first, last: ids of the span, including noops and bad entries, which have no row.
            groups: tables of whole entries, in order; each becomes a row group.
            replaced: names of segments to take off the list; the caller then removes them.

        Raises:
            OSError: the disk is full or broken; the call can be repeated.
            CorruptLog: the manifest is torn or altered; nothing was written.
        """
        name = f"{first.ms:016d}.{first.seq:08d}_{last.ms}.{last.seq}.parquet"
        with self._written(name, lambda file: write_groups(file, groups)) as (temporary, written):
            self._publish(temporary, name, written, replaced)
        return Segment(first, last, self.path / name)

    def take(self, name: str, expected: Sum, fetch: Callable[[IO[bytes]], object]) -> None:
        """Add a segment of another copy of this log, or replace it by that copy's; it is durable on return.

        Args:
            name: of the segment.
            expected: its sum.
            fetch: writes its content to a file.

        Raises:
            CorruptLog: the content has another sum; nothing has changed.
            OSError: the disk is full or broken; nothing has changed.
        """
        with self._written(name, fetch) as (temporary, written):
            if written != expected:
                raise _altered(Path(name), [expected], str(written))
            self._publish(temporary, name, written, ())

    def keep_only(self, names: Collection[str]) -> None:
        """Remove the segments of other names: another copy of this log has not got them any more."""
        self.remove([segment for segment in self.segments() if segment.path.name not in names])

    def holds(self, name: str, expected: Sum, *, reads: bool) -> bool:
        """Whether the file of a segment is there, as far as its size tells; `reads` compares its content, too."""
        try:
            with files.open_regular(self.path / name) as file:
                return os.fstat(file.fileno()).st_size == expected.n_bytes and (not reads or Sum.of(file) == expected)
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def _written(self, name: str, write: Callable[[IO[bytes]], object]) -> Iterator[tuple[Path, Sum]]:
        """A new file on disk and its sum, for `_publish`; if the block fails, nothing is left of it."""
        temporary = self.path / f"{_TEMPORARY}{os.getpid()}-{name}"
        with FileLock.take(self.path / _LOCK, _LOCK_TIMEOUT_S, shared=True):
            try:
                with temporary.open("wb") as file:
                    write(file)
                    file.flush()
                    files.fsync(file.fileno())
                with files.open_regular(temporary) as written:
                    yield temporary, Sum.of(written)
            except BaseException:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                raise

    def _publish(self, temporary: Path, name: str, written: Sum, replaced: Iterable[str]) -> None:
        """Rename the file to `name`, and list it instead of those that it replaces."""
        with self._manifest.changing() as sums:
            if name in sums:
                self._manifest.store({**sums, name: [*sums[name], written]})
            is_new = not (self.path / name).exists()
            files.rename(temporary, self.path / name)
            try:
                files.sync(self.path)
            except OSError:
                if is_new:  # nobody may take for archived what a power cut can take away
                    (self.path / name).unlink(missing_ok=True)
                raise
            others = {listed: sums[listed] for listed in sums.keys() - set(replaced)}
            self._manifest.store({**others, name: [written]})

    def settle(self) -> None:
        """Return when all segments that are there are on the disk, and those that somebody writes are listed."""
        with self._manifest.changing():
            files.sync(self.path)

    def remove(self, segments: Iterable[Segment]) -> None:
        """Remove segments that another segment covers."""
        gone = [segment.path for segment in segments]
        if gone:
            with self._manifest.changing() as sums:
                self._manifest.store({name: listed for name, listed in sums.items() if self.path / name not in gone})
        for path in gone:
            path.unlink(missing_ok=True)

    def remove_temporaries(self) -> None:
        """Remove temporary files of killed writers, when no process writes."""
        with FileLock.take(self.path / _LOCK, _LOCK_TIMEOUT_S):
            for path in self.path.glob(f"{_TEMPORARY}*"):
                path.unlink()


def _identity_of(file: Path | int) -> Identity:
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(file)  # noqa: PTH116 - a path or an open file
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None


def _is_covered(name: str, segments: list[Segment]) -> bool:
    """Whether another segment spans `name`, which was merged into it."""
    first, last = span_of(name) or (ZERO, ZERO)
    return any(segment.first <= first and segment.last >= last for segment in segments)


def span_of(name: str) -> tuple[StreamId, StreamId] | None:
    """First and last id in the name of a segment; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    ms, seq, last_ms, last_seq = map(int, match.groups())
    return StreamId(ms, seq), StreamId(last_ms, last_seq)


def last_of(names: Iterable[str]) -> StreamId:
    """The last id of the segments among files of these names; `ZERO` if there is none."""
    return max((span[1] for span in map(span_of, names) if span), default=ZERO)


def _altered(path: Path, sums: list[Sum], actual: str) -> CorruptLog:
    expected = " or ".join(map(str, sums))
    return CorruptLog(
        f"Invalid segment {path}: expected {expected}, as in {MANIFEST_FILE}, got {actual}: it is torn or altered;"
        f" restore it from a backup, or move it and the manifest away if its ratings are lost"
    )
