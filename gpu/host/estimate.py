"""Scores of a model in host memory ([004] eq. 1): of given pairs, and the ranks of items among all."""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpu.host.sgd import ABSENT, IS_RATED, UNRATED, clear, dot, fill, neighbour_terms
from gpu.ratings import Rows
from gpu.training import Arrays

# Pairs are predicted in this many runs, whatever the number of threads.
_N_RUNS = 64


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def predict(
    rows: Rows, users: NDArray[np.int32], items: NDArray[np.int32], arrays: Arrays, out: NDArray[np.float32]
) -> None:
    """Eq. 1 for each pair, into `out` (B,). Pairs of one user should stand together: their row is read once."""
    n_neighbours = arrays.neighbours.shape[1]
    for run in prange(_N_RUNS):
        first, last = len(users) * run // _N_RUNS, len(users) * (run + 1) // _N_RUNS
        line = np.full(len(arrays.item_bias) + 1, UNRATED)
        line[-1] = ABSENT
        near = np.empty((3, n_neighbours), np.float32)
        for x in range(first, last):
            user, item = users[x], items[x]
            if x == first or user != users[x - 1]:
                if x > first:
                    clear(line, rows, users[x - 1])
                fill(line, rows, user, arrays)
            terms, _, _ = neighbour_terms(item, line, arrays, near)
            out[x] = arrays.mean + arrays.user_bias[user] + arrays.item_bias[item] + terms + dot(user, item, arrays)


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def rank_items(
    rows: Rows, users: NDArray[np.int32], bounds: NDArray[np.int64], items: NDArray[np.int32], arrays: Arrays,
    ranks: NDArray[np.int64],
) -> None:  # fmt: skip
    """Rank from 0 of some items of each user among all items they have not rated, into `ranks`; ties to the lower row.

    Args:
        users: (B,). The items to rank for users[b] are `items[bounds[b] : bounds[b + 1]]`; one that the user has rated
            gets −1.
    """
    n_items = len(arrays.item_bias)
    for b in prange(len(users)):
        line = np.full(n_items + 1, UNRATED)
        line[n_items] = ABSENT
        scores = np.empty(n_items, np.float32)
        near = np.empty((3, arrays.neighbours.shape[1]), np.float32)
        fill(line, rows, users[b], arrays)
        for item in range(n_items):
            terms, _, _ = neighbour_terms(item, line, arrays, near)
            scores[item] = arrays.item_bias[item] + terms + dot(users[b], item, arrays)
        for p in range(bounds[b], bounds[b + 1]):
            ranks[p] = _rank(items[p], scores, line)


@njit(nogil=True, cache=True)
def _rank(item: int, scores: NDArray[np.float32], line: NDArray[np.float32]) -> int:
    if line[item] > IS_RATED:
        return -1
    rank = 0
    for other in range(len(scores)):
        is_above = (scores[other] > scores[item]) | ((scores[other] == scores[item]) & (other < item))
        rank += is_above & (line[other] < IS_RATED)
    return rank
