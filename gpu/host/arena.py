"""Rows of changing length in flat arrays: where they go when they outgrow their place (see `gpu.arena`).

Places have the sizes of `SIZES`. One that was given back is the head of the list of its size, `ends[1 + size]`, and its
entry of the first column says which one is next. Heads and entries count in units of `UNIT` places, so that they fit
into the int32 of that column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int = int | np.integer[Any]

Directory = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # see `gpu.arena`

UNIT = 4  # places; every size is a multiple of it
SIZES = np.array([UNIT, *(n * UNIT << k for k in range(40) for n in (2, 3))], dtype=np.int64)  # 4, 8, 12, 16, 24, 32, …
N_SIZES = len(SIZES)
NONE = -1  # no free place
STAYS = -2  # what `new_place` says where the row has room,
FULL = -1  # and where no room is left


def sizes_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The smallest place for a row of each length, int64 (R,); 0 for an empty one."""
    sizes: NDArray[np.int64] = np.where(lengths, SIZES[np.searchsorted(SIZES, lengths)], 0)
    return sizes


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
def new_place(row: Int, rows: Directory, first_column: NDArray[np.int32]) -> Int:
    """Where a row that needs one more place can go on.

    Returns:
        `STAYS`, `FULL`, or the start of a longer place, whose size is the row's capacity now: the caller copies the
        row's columns there, sets its start and gives the old place back.
    """
    _, lengths, capacities, ends = rows
    if lengths[row] < capacities[row]:
        return STAYS
    size = np.searchsorted(SIZES, lengths[row] + 1)
    place: Int = ends[1 + size] * UNIT
    if place >= 0:
        ends[1 + size] = first_column[place]
    elif ends[0] + SIZES[size] <= len(first_column):
        place = ends[0]
        ends[0] += SIZES[size]
    else:
        return FULL
    capacities[row] = SIZES[size]
    return place


@njit(cache=True, nogil=True)
def give_back(start: Int, capacity: Int, ends: NDArray[np.int64], first_column: NDArray[np.int32]) -> None:
    """Let other rows have the place of `capacity` at `start`; nothing where that is 0."""
    if capacity > 0:
        size = np.searchsorted(SIZES, capacity)
        first_column[start] = ends[1 + size]
        ends[1 + size] = start // UNIT


@njit(cache=True, nogil=True)
def clear(row: Int, rows: Directory, first_column: NDArray[np.int32]) -> None:
    """Empty a row and give its place back."""
    starts, lengths, capacities, ends = rows
    give_back(starts[row], capacities[row], ends, first_column)
    starts[row], lengths[row], capacities[row] = 0, 0, 0
