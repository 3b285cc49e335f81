"""Collects the ratings for exact refits of many rows in one pass (see `gpu.online.exact`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import Int
from gpu.data.host_rating_table import OrderedRows

BEFORE_ALL = np.int64(-(2**63))  # below every position


@called_for(Use.EXACT)
@njit(cache=True, nogil=True)
def newest_of_users(
    users: NDArray[np.int64], rows: OrderedRows, most: Int, is_read: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
    """The ratings of items with `is_read` (I,) among the `most` newest ratings of each user.

    Args:
        users: rows of users, (B,).

    Returns:
        (items int32 (N,), values float32 (N,), bounds int64 (B + 1,)): user b has the ratings `bounds[b]` to
        `bounds[b + 1]`, ascending by item.
    """
    n_ratings = 0
    for user in users:
        n_ratings += rows.lengths[user]
    items, values = np.empty(n_ratings, dtype=np.int32), np.empty(n_ratings, dtype=np.float32)
    bounds, n = np.zeros(len(users) + 1, dtype=np.int64), 0
    for b in range(len(users)):
        first, length = rows.starts[users[b]], rows.lengths[users[b]]
        oldest = BEFORE_ALL
        if length > most:
            oldest = np.partition(rows.positions[first : first + length], length - most)[length - most]
        for position in range(first, first + length):
            if is_read[rows.items[position]] and rows.positions[position] >= oldest:
                items[n], values[n] = rows.items[position], rows.values[position]
                n += 1
        bounds[b + 1] = n
    return items[:n], values[:n], bounds
