"""Lists of the items that are liked together with each item, on a CUDA device.

The twin of `gpu.hashing.host_cooccurrence`, with equal bits. The kernel, what its blocks own, and races:
kernels/cooccurrence.cu.
"""

from __future__ import annotations

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import WORKSPACE
from gpu.base.device import free_bytes, n_multiprocessors
from gpu.cuda.arrays import to_device
from gpu.cuda.launcher import Launcher
from gpu.cuda.ratings import columns_of, keys_of, rows_of
from gpu.data.ratings import Ratings
from gpu.hashing.cooccurrence import ListRules

THREADS, BLOCKS = 512, 3  # threads of a block, as in kernels/cooccurrence.cu; blocks of a multiprocessor, at most
LINE_BYTES = 16  # of an item in the lines of a block
RATING_BYTES = 16  # of a rating by user and by item


def bytes_needed(n_items: int, n_users: int, n_ratings: int, length: int) -> int:
    """Bytes for making lists with one block on each multiprocessor; more blocks take what is free.

    Args:
        n_items, n_users, n_ratings: I, U and N.
        length: L.
    """
    lists, lines = 8 * length * n_items, LINE_BYTES * n_items * n_multiprocessors()
    ratings = 40 * n_items + 28 * n_users + RATING_BYTES * n_ratings
    return lists + lines + ratings + WORKSPACE


def lists_of(ratings: Ratings, rules: ListRules) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The lists of all items.

    Returns:
        int32 rows (I, L), ascending, padded with −1; and their weights, float32 (I, L). Both on the host.
    """
    n_items, n_users, run = ratings.n_items, ratings.n_users, Launcher("cooccurrence", {})
    rows, columns, likes = rows_of(ratings), columns_of(ratings), (rules.middle, rules.lift)
    n_likes = cupy.empty(n_users, dtype=cupy.int32)
    of_rows = rows.starts, rows.lengths, rows.values, np.int32(n_users), *likes, n_likes
    run("count_likes", -(-n_users // THREADS), THREADS, *of_rows)
    listed = cupy.empty((n_items, rules.length), dtype=cupy.int32)
    weights = cupy.empty((n_items, rules.length), dtype=cupy.float32)
    # More blocks wait less for memory; those of one multiprocessor share its cache.
    fitting = free_bytes() // 2 // (LINE_BYTES * max(n_items, 1))
    n_blocks = min(max(fitting, n_multiprocessors()), BLOCKS * n_multiprocessors(), n_items)
    lines = (
        cupy.zeros((n_blocks, n_items), dtype=cupy.uint64),  # sums
        cupy.empty((n_blocks, n_items), dtype=cupy.int32),  # rows and
        cupy.empty((n_blocks, n_items), dtype=cupy.float32),  # weights of the entries
    )
    of_users = n_likes, to_device(rules.user_weights), np.int32(len(rules.user_weights))
    of_items = to_device(rules.scales(ratings.n_pairs_of_items)), keys_of(ratings).items
    sizes = np.int32(n_items), np.int32(rules.length), cupy.zeros(1, dtype=cupy.int32)
    run("list_all", n_blocks, THREADS, *columns, *rows, *of_users, *of_items, *likes, *sizes, *lines, listed, weights)
    return listed.get(), weights.get()
