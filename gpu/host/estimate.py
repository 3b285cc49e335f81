"""Scores of a model in host memory ([004] eq. 1): of given pairs."""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpu.host.sgd import ABSENT, UNRATED, clear, dot, fill, neighbour_terms
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
