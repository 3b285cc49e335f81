"""Items that a forgotten user was the first to name.

Items have rows in order of first sight, and rows decide ties, and the order in which numbers are added up. If the
ratings of a user just left the log, a restart would give other rows than before. So where a user was the first to name
an item, something stays that names the item and nobody: the deletion of a rating that is not there, by the user of the
empty name, whom no request can name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.storage.events import StreamId
from service.storage.segment import is_of

NOBODY = ""
COLUMNS = ["index", "user", "item"]
Positions = set[tuple[int, int, int]]  # ms, seq and index of rows


def introduced_by(user: str, before: StreamId, read: Callable[[], Iterable[pa.RecordBatch]]) -> Positions:
    """The rows of `user` below `before` that are the first of all to name their item.

    Args:
        user, before: whose rows, and up to where.
        read: all rows of the log in order, with `COLUMNS`; called twice.
    """
    named: set[str] = set()
    for batch in read():
        theirs = batch.column("item").filter(pa.array(is_of(batch, user, before)))
        named |= set(theirs.drop_null().unique().to_pylist())
    found: Positions = set()
    batches = iter(read())
    while named and (batch := next(batches, None)) is not None:
        rows, items = _first_of(batch, named)
        named -= set(items)
        ours = rows[is_of(batch, user, before)[rows]]
        found |= set(_positions(batch, ours))
    return found


def without(batch: pa.RecordBatch, user: str, before: StreamId, introduced: Positions) -> pa.RecordBatch:
    """Rows that are not of `user`, or not below `before`; those of `introduced` name nobody."""
    theirs = is_of(batch, user, before)
    rows = np.flatnonzero(theirs)
    kept = [row for row, position in zip(rows, _positions(batch, rows), strict=True) if position in introduced]
    stays = ~theirs
    stays[kept] = True
    is_nobodys = pa.array(theirs[stays])
    rest = batch.filter(pa.array(stays))
    told_s = pc.divide(rest.column("ms").cast(pa.float64()), 1000.0)
    changed = {
        "user": pc.if_else(is_nobodys, NOBODY, rest.column("user").cast(pa.string())),
        "rating": pc.if_else(is_nobodys, pa.scalar(None, pa.float32()), rest.column("rating")),
        "timestamp": pc.if_else(is_nobodys, told_s, rest.column("timestamp")),
    }
    columns = {name: changed.get(name, rest.column(name)) for name in rest.schema.names}
    return pa.RecordBatch.from_pydict(columns)


def _first_of(batch: pa.RecordBatch, named: set[str]) -> tuple[NDArray[np.int64], list[str]]:
    """The first row of each item of `named` in the batch, and these items."""
    column = batch.column("item")
    is_wanted = np.append(pc.is_in(column.dictionary, pa.array(sorted(named))).to_numpy(zero_copy_only=False), False)
    codes = column.indices.fill_null(len(column.dictionary)).to_numpy()
    rows = np.flatnonzero(is_wanted[codes])
    distinct, first = np.unique(codes[rows], return_index=True)
    return rows[first], column.dictionary.take(pa.array(distinct)).to_pylist()


def _positions(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    columns = (batch.column(name).to_numpy()[rows].tolist() for name in ("ms", "seq", "index"))
    return zip(*columns, strict=True)
