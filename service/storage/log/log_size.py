"""`LogSize`: how large the rating log is, and how many of its rows are newer than a position."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import pyarrow.parquet as pq

from service.storage.events import ZERO, StreamId
from service.storage.log.rating_log import RatingLog


class Size(NamedTuple):
    """Segments, their rows and their bytes."""

    n_segments: int
    n_rows: int
    n_bytes: int


class LogSize:
    """Counts rows of one log. Reads each of them once over all calls; one thread at a time may call it."""

    def __init__(self, log: RatingLog) -> None:
        self._log = log
        self._rows: dict[tuple[str, int], int] = {}  # by name and bytes of a segment
        self._counts: dict[StreamId, tuple[StreamId, int]] = {}  # by watermark: rows after it, up to a position

    def measure(self) -> Size:
        """The present size, from the ends of the segment files."""
        while True:
            with contextlib.suppress(FileNotFoundError):  # merged into another one meanwhile: list again
                rows, cursor = dict[tuple[str, int], int](), ZERO
                for segment in self._log.files.segments():
                    if segment.last > cursor:  # else it has been merged and is still there
                        key = segment.path.name, segment.path.stat().st_size
                        n_rows = self._rows[key] if key in self._rows else int(pq.read_metadata(segment.path).num_rows)
                        rows[key], cursor = n_rows, segment.last
                self._rows = rows
                return Size(len(rows), sum(rows.values()), sum(n_bytes for _, n_bytes in rows))

    def newer(self, watermarks: set[StreamId]) -> dict[StreamId, int]:
        """The rows after each watermark, in the log so far. Raises what `RatingLog.read` raises."""
        counts = {}
        for after in watermarks:
            last, n_rows = self._counts.get(after, (after, 0))
            for batch in self._log.read(last, columns=["index"]):
                if batch.num_rows:
                    last = StreamId(batch.column("ms")[-1].as_py(), batch.column("seq")[-1].as_py())
                    n_rows += batch.num_rows
            counts[after] = last, n_rows
        self._counts = counts
        return {after: n_rows for after, (_, n_rows) in counts.items()}
