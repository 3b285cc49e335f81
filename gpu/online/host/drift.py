"""Kernels that count and collect the ratings for refits of trained items (see `gpu.online.drift`)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import Int
from gpu.data.host_rating_table import OrderedRows, find
from gpu.data.ratings import Rows


@called_for(Use.DRIFT)
@njit(cache=True, nogil=True)
def count(
    first: Int,
    last: Int,
    is_trained: NDArray[np.bool_],
    rows: OrderedRows,
    since: Int,
    n_new: NDArray[np.int64],
    n_old: NDArray[np.int64],
) -> None:
    """Count ratings by trained users `first` to `last` (excluded), for each item.

    Ratings from position `since` on go to `n_new` (I,), earlier ones to `n_old` (I,). Items beyond these are ignored.
    """
    for user in range(first, last):
        if not is_trained[user]:
            continue
        for position in range(rows.starts[user], rows.starts[user] + rows.lengths[user]):
            item = rows.items[position]
            if item < len(n_new):
                if rows.positions[position] >= since:
                    n_new[item] += 1
                else:
                    n_old[item] += 1


@called_for(Use.HASHED_DRIFT)
@njit(cache=True, nogil=True)
def readers(
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    rows: OrderedRows,
    is_refitted: NDArray[np.bool_],
    neighbors: Annotated[NDArray[np.int32], 2],
) -> NDArray[np.int32]:
    """Refitted items that read one of the ratings (users[b], items[b]): the user has rated them too, and they have the
    item among their `neighbors` (I, K). An item may occur several times. Items beyond `is_refitted` are not refitted.
    """
    n, found = 0, np.empty(rows.lengths[users].sum(), dtype=np.int32)
    for b in range(len(users)):
        item = np.int32(items[b])
        for position in range(rows.starts[users[b]], rows.starts[users[b]] + rows.lengths[users[b]]):
            other = rows.items[position]
            if other >= len(is_refitted) or not is_refitted[other]:
                continue
            n_same = 0
            for k in range(neighbors.shape[1]):  # to the end: several numbers at once, and no branch to guess
                n_same += neighbors[other, k] == item
            found[n] = other
            n += n_same > 0
    return found[:n]


@called_for(Use.SAMPLED_DRIFT)
@njit(cache=True, nogil=True)
def picked(items: NDArray[np.int64], users: NDArray[np.int32], rows: OrderedRows, upto: Int) -> Rows:
    """The ratings of `items` (ascending) by `users` (B,) up to position `upto`, as B new rows."""
    starts, lengths = np.zeros(len(users), dtype=np.int64), np.zeros(len(users), dtype=np.int64)
    columns = np.empty(len(users) * len(items), dtype=np.int32)
    values = np.empty(len(columns), dtype=np.float32)
    n = 0
    for b in range(len(users)):
        starts[b] = n
        position, end = rows.starts[users[b]], rows.starts[users[b]] + rows.lengths[users[b]]
        for item in items:
            position = find(rows.items, position, end - position, item)
            if position < end and rows.items[position] == item and rows.positions[position] <= upto:
                columns[n], values[n] = item, rows.values[position]
                n += 1
        lengths[b] = n - starts[b]
    return Rows(starts, lengths, columns[:n], values[:n])
