"""Lists of the items that are liked together with each item, on the host (`gpu.hashing.cooccurrence`).

One item at a time: its sums with all others are added up over the rows of the users who like it, in a line of I
numbers. Then the best L become its list. It takes Σ n_u² additions for all items, and no memory for pairs.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.data.host_evidence import merit
from gpu.data.ratings import Ratings, Rows
from gpu.hashing.cooccurrence import ListRules

TASKS = 64  # parts of the items that threads share
LINE_BYTES = 12  # of an item in the line of sums of a thread


def bytes_needed(n_items: int, n_users: int, n_ratings: int, length: int) -> int:
    """Bytes for making lists in addition to the ratings: the lists, counts of likes, and a line of sums a thread."""
    del n_ratings
    return 8 * length * n_items + 16 * n_items + 4 * n_users + LINE_BYTES * n_items * get_num_threads()


def lists_of(ratings: Ratings, rules: ListRules) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The lists of all items: int32 rows (I, L), ascending, padded with −1, and their weights, float32 (I, L)."""
    n_items, n_likes = ratings.n_items, np.empty(ratings.n_users, dtype=np.int32)
    count_likes(ratings.by_user, rules.middle, rules.lift, n_likes)
    listed = np.empty((n_items, rules.length), dtype=np.int32)
    weights = np.empty((n_items, rules.length), dtype=np.float32)
    scales, sums = rules.scales(ratings.n_pairs_of_items), (rules.user_weights, rules.middle, rules.lift)
    list_all(ratings.by_item, ratings.by_user, n_likes, *sums, scales, ratings.item_keys, listed, weights)
    return listed, weights


@called_for(Use.LISTS, Use.TRAINING)
@njit(cache=True, nogil=True)
def count_likes(rows: Rows, middle: np.float32, lift: np.float32, n_likes: NDArray[np.int32]) -> None:
    """Write the number of likes of each row to `n_likes` (U,)."""
    for user in range(len(n_likes)):
        n = 0
        for position in range(rows.starts[user], rows.starts[user] + rows.lengths[user]):
            n += int(merit(rows.values[position], lift) >= middle)
        n_likes[user] = n


@called_for(Use.LISTS)
@njit(cache=True, nogil=True)
def add_users(
    users: NDArray[np.int32],
    values: NDArray[np.float32],
    rows: Rows,
    n_likes: NDArray[np.int32],
    user_weights: NDArray[np.int64],
    middle: np.float32,
    lift: np.float32,
    sums: NDArray[np.int64],
    touched: NDArray[np.int32],
    n_touched: int,
) -> int:
    """Add what the users of an item say to its `sums` (I,) with all items.

    Args:
        users, values: who has rated the item, and how, (B,).
        touched: (I,), the items whose sums are not 0; the first `n_touched` are there already.

    Returns:
        The number of touched items. Items beyond `sums` are left out.
    """
    n: int = n_touched
    for b in range(len(users)):
        user = users[b]
        if not merit(values[b], lift) >= middle or n_likes[user] >= len(user_weights):
            continue
        weight = user_weights[n_likes[user]]
        if weight == 0:
            continue
        for position in range(rows.starts[user], rows.starts[user] + rows.lengths[user]):
            other = np.uint32(rows.items[position])
            if other < np.uint32(len(sums)) and merit(rows.values[position], lift) >= middle:
                if sums[other] == 0:
                    touched[n] = other
                    n += 1
                sums[other] += weight
    return n


@called_for(Use.LISTS)
@njit(cache=True, nogil=True)
def write_list(
    item: int,
    sums: NDArray[np.int64],
    touched: NDArray[np.int32],
    scales: NDArray[np.float64],
    keys: NDArray[np.uint64],
    listed: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Write the list of an item, (L,) each, by its `sums` (I,), which become 0 again.

    Args:
        touched: (B,), the items whose sums are not 0.
        scales, keys: of all items, (I,).
    """
    found, of_found, n = np.empty(len(touched), dtype=np.int32), np.empty(len(touched), dtype=np.float32), 0
    for other in np.sort(touched):
        if other != item:
            found[n], of_found[n] = other, np.float32(sums[other] * scales[item] * scales[other])
            n += 1
        sums[other] = 0
    listed[:], weights[:] = -1, 0
    length, last_key, least = len(listed), np.uint64(0xFFFFFFFFFFFFFFFF), np.float32(-1)
    if n > length:
        least = np.partition(of_found[:n], n - length)[n - length]
        ties = keys[found[:n][of_found[:n] == least]]
        last_key = np.sort(ties)[length - np.count_nonzero(of_found[:n] > least) - 1]
    place = 0
    for t in range(n):
        if place < length and (of_found[t] > least or (of_found[t] == least and keys[found[t]] <= last_key)):
            listed[place], weights[place] = found[t], of_found[t]
            place += 1


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True)
def list_all(
    columns: Rows,
    rows: Rows,
    n_likes: NDArray[np.int32],
    user_weights: NDArray[np.int64],
    middle: np.float32,
    lift: np.float32,
    scales: NDArray[np.float64],
    keys: NDArray[np.uint64],
    listed: Annotated[NDArray[np.int32], 2],
    weights: Annotated[NDArray[np.float32], 2],
) -> None:
    """`write_list` of all items; a task takes every `TASKS`-th one."""
    n_items = len(columns.starts)
    for task in prange(TASKS):
        sums, touched = np.zeros(n_items, dtype=np.int64), np.empty(n_items, dtype=np.int32)
        for item in range(task, n_items, TASKS):
            own = slice(columns.starts[item], columns.starts[item] + columns.lengths[item])
            users, values = columns.items[own], columns.values[own]
            n = add_users(users, values, rows, n_likes, user_weights, middle, lift, sums, touched, 0)
            write_list(item, sums, touched[:n], scales, keys, listed[item], weights[item])
