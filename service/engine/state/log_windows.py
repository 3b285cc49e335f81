"""`windows`: the rows of the rating log in batches of many row groups; and threads before and behind their reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from service.storage.events import StreamId

WINDOW_ROWS = 1 << 19  # rows, about; those of two windows take some 150 MB
T = TypeVar("T")


def windows(batches: Iterable[pa.RecordBatch], end: StreamId) -> Iterator[pa.RecordBatch]:
    """The rows of `batches` up to `end`, in batches of about `WINDOW_ROWS` with one dictionary a column.

    An id occurs in many row groups. So an id of a window is looked up once where it was once for each row group.
    """
    held: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in batches:
        ms, seq = (batch.column(name).to_numpy() for name in ("ms", "seq"))
        held.append(batch.slice(0, int(np.count_nonzero((ms < end.ms) | ((ms == end.ms) & (seq <= end.seq))))))
        n_rows += held[-1].num_rows
        is_last = held[-1].num_rows < batch.num_rows
        if n_rows >= WINDOW_ROWS or is_last:
            yield from _joined(held)
            held, n_rows = [], 0
        if is_last:
            return
    yield from _joined(held)


def ahead(batches: Iterable[T], pool: Executor) -> Iterator[T]:
    """`batches`, each of which is read on another thread while the one before is used."""
    iterator = iter(batches)
    reading = pool.submit(next, iterator, None)
    while (batch := reading.result()) is not None:
        reading = pool.submit(next, iterator, None)
        yield batch


class OneBehind:
    """Runs calls in order on another thread, at most one at a time and one behind this thread."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._running: Future[Any] | None = None

    def run(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Wait for the previous call, then start this one. Raises what the previous one raised."""
        self.wait()
        self._running = self._pool.submit(call, *arguments)

    def wait(self) -> None:
        """Wait for the previous call. Raises what it raised."""
        running, self._running = self._running, None
        if running is not None:
            running.result()


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows of all batches as one; no batch if there are none."""
    table = pa.Table.from_batches(batches) if batches else None
    if not table:
        return []
    joined: list[pa.RecordBatch] = table.unify_dictionaries().combine_chunks().to_batches()
    return joined
