"""Keeps the order of items when the user who rated some of them first is forgotten.

Items get rows in order of first appearance. Rows decide ties and the order of sums, so a restart must give the same
rows as before. It would not if the ratings of the forgotten user were only removed from the log. Therefore the first
row of each such item is replaced by the deletion of a rating that does not exist, by a user with the empty id, which no
request can have. The first row of an entry with a source is replaced too, since it says how far the source has come.
The row that made another user part of the forgotten one becomes the forgetting of that other user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.storage.log.ownership import UserRows

NOBODY = ""
COLUMNS = ["index", "user", "item"]
Positions = set[tuple[int, int, int]]  # ms, seq and index of rows


def introduced_by(parts: Sequence[UserRows], read: Callable[[], Iterable[pa.RecordBatch]]) -> Positions:
    """Positions of the rows of `parts` that are the first in the log with their item.

    Args:
        parts: all rows of a user.
        read: returns all rows of the log in order, with `COLUMNS`; called twice.
    """
    named: set[str] = set()
    for batch in read():
        theirs = batch.column("item").filter(pa.array(are_of(batch, parts)))
        named |= set(theirs.drop_null().unique().to_pylist())
    introduced: Positions = set()
    batches = iter(read())
    while named and (batch := next(batches, None)) is not None:
        # The first row in the batch of each item of `named`.
        items = batch.column("item")
        is_named = np.append(pc.is_in(items.dictionary, pa.array(sorted(named))).to_numpy(zero_copy_only=False), False)
        codes = items.indices.fill_null(len(items.dictionary)).to_numpy()
        rows = np.flatnonzero(is_named[codes])
        distinct, first = np.unique(codes[rows], return_index=True)
        rows = rows[first]
        named -= set(items.dictionary.take(pa.array(distinct)).to_pylist())
        introduced |= set(positions_of(batch, rows[are_of(batch, parts)[rows]]))
    return introduced


def without(batch: pa.RecordBatch, parts: Sequence[UserRows], introduced: Positions) -> pa.RecordBatch:
    """`batch` without the rows of `parts`; those of `introduced` and of sources stay, of nobody, and merges."""
    theirs = are_of(batch, parts)
    is_mark = batch.column("source").is_valid().to_numpy(zero_copy_only=False) & (batch.column("index").to_numpy() == 0)
    rows = np.flatnonzero(theirs)
    introducing = [row for row, position in zip(rows, positions_of(batch, rows), strict=True) if position in introduced]
    is_merge = theirs & pc.equal(batch.column("kind").cast(pa.string()), "merge").to_numpy(zero_copy_only=False)
    stays = ~theirs | is_mark | is_merge
    stays[introducing] = True
    is_nobodys, is_end = pa.array((theirs & ~is_merge)[stays]), pa.array(is_merge[stays])
    either = pa.StructArray.from_arrays([is_nobodys, is_end], ["first", "second"])
    others = batch.filter(pa.array(stays))
    entry_s = pc.divide(others.column("ms").cast(pa.float64()), 1000.0)
    changed = {
        "kind": pc.case_when(either, "rating", "forget", others.column("kind").cast(pa.string())),
        "user": pc.case_when(either, NOBODY, others.column("data"), others.column("user").cast(pa.string())),
        "data": pc.if_else(pc.or_(is_nobodys, is_end), pa.scalar(None, pa.string()), others.column("data")),
        "rating": pc.if_else(is_nobodys, pa.scalar(None, pa.float32()), others.column("rating")),
        "timestamp": pc.if_else(is_nobodys, entry_s, others.column("timestamp")),
        "type": pc.if_else(is_nobodys, pa.scalar(None, pa.string()), others.column("type").cast(pa.string())),
        "value": pc.if_else(is_nobodys, pa.scalar(None, pa.float64()), others.column("value")),
        "event_id": pc.if_else(is_nobodys, pa.scalar(None, pa.string()), others.column("event_id")),
    }
    columns = {name: changed.get(name, others.column(name)) for name in others.schema.names}
    return pa.RecordBatch.from_pydict(columns)


def are_of(batch: pa.RecordBatch, parts: Sequence[UserRows]) -> NDArray[np.bool_]:
    """Which rows are among `parts`."""
    are_theirs = np.zeros(batch.num_rows, dtype=np.bool_)
    names = batch.column("user").dictionary
    here = set(names.filter(pc.is_in(names, pa.array([part.user for part in parts], pa.string()))).to_pylist())
    for part in parts:
        if part.user in here:
            are_theirs |= part.of(batch)
    return are_theirs


def positions_of(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """The positions of rows."""
    columns = (batch.column(name).to_numpy()[rows].tolist() for name in ("ms", "seq", "index"))
    return zip(*columns, strict=True)
