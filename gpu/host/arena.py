"""Rows of changing length in flat arrays: the moves that every column of an arena shares (see `gpu.arena`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int = int | np.integer[Any]

Directory = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # see `gpu.arena`

FIRST_CAPACITY = 4
STAYS = -2  # what `new_place` says where the row has room,
FULL = -1  # and where no room is left


@njit(cache=True, nogil=True)
def move_rows(
    target: NDArray[Any],
    target_starts: NDArray[np.int64],
    source: NDArray[Any],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Copy every row of one column to its new place in another array."""
    for x in range(len(starts)):
        for n in range(lengths[x]):
            target[target_starts[x] + n] = source[starts[x] + n]


@njit(cache=True, nogil=True)
def new_place(
    row: Int,
    n_places: Int,
    lengths: NDArray[np.int64],
    capacities: NDArray[np.int64],
    end: NDArray[np.int64],
) -> Int:
    """Where a row that needs one more place can go on.

    Args:
        n_places: length of the columns.

    Returns:
        `STAYS`, `FULL`, or a start at the end of the arena, where twice the row's length is now taken: the caller
        copies the row's columns there and sets its start.
    """
    if lengths[row] < capacities[row]:
        return STAYS
    wanted = max(2 * lengths[row], FIRST_CAPACITY)
    if end[0] + wanted > n_places:
        return FULL
    place: Int = end[0]
    end[0] += wanted
    capacities[row] = wanted
    return place
