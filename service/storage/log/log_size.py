"""`LogSize`: how large the rating log is, and how many of its rows are newer than a position."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from service.storage.events import ZERO, StreamId
from service.storage.log.rating_log import RatingLog


class Size(NamedTuple):
    """Segments, their rows and their bytes."""

    n_segments: int
    n_rows: int
    n_bytes: int


class _Count(NamedTuple):
    """The number `n` of rows after a watermark, up to `position`."""

    position: StreamId
    n: int


class LogSize:
    """Counts rows of one log. Reads each of them once over all calls; one thread at a time may call it."""

    def __init__(self, log: RatingLog) -> None:
        self._log = log
        self._rows: dict[tuple[str, int], int] = {}  # by name and bytes of a segment
        self._counts: dict[StreamId, _Count] = {}  # by watermark

    def measure(self) -> Size:
        """The present size, from the ends of the segment files."""
        while True:
            with contextlib.suppress(FileNotFoundError):  # merged into another one meanwhile: list again
                self._rows = dict(self._present())
                return Size(len(self._rows), sum(self._rows.values()), sum(n_bytes for _, n_bytes in self._rows))

    def _present(self) -> Iterator[tuple[tuple[str, int], int]]:
        """Name, bytes and rows of each segment, without those that have been merged and are still there."""
        cursor = ZERO
        for segment in self._log.segments():
            if segment.last > cursor:
                key = segment.path.name, segment.path.stat().st_size
                yield key, self._rows[key] if key in self._rows else _rows_of(segment.path)
                cursor = segment.last

    def newer(self, watermarks: set[StreamId]) -> dict[StreamId, int]:
        """The rows after each watermark, in the log so far. Raises what `RatingLog.read` raises."""
        self._counts = {after: self._counted(self._counts.get(after, _Count(after, 0))) for after in watermarks}
        return {after: count.n for after, count in self._counts.items()}

    def _counted(self, count: _Count) -> _Count:
        for batch in self._log.read(count.position, columns=["index"]):
            if batch.num_rows:
                last = StreamId(batch.column("ms")[-1].as_py(), batch.column("seq")[-1].as_py())
                count = _Count(last, count.n + batch.num_rows)
        return count


def _rows_of(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)
