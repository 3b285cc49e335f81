"""Kernels that count and collect the ratings for refits of trained items (see `gpu.online.drift`)."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpu.host.arena import Int
from gpu.host.online.rating_table import OrderedRows, find
from gpu.ratings import Rows


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
