"""`Arena`: rows of unequal, changing length in a few flat arrays, so that millions of them cost no Python object.

A row lies in a block of one of the `SIZES`. Freed blocks of each size form a linked list. Its head is `ends[1 + size]`,
and the first entry of a free block in the first column holds the next block. Heads and entries count in units of `UNIT`
entries, so that they fit into the int32 of that column.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from gpu.base.growing import Growing
from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for

Int = int | np.integer[Any]
NUMBERS = (np.int32, np.int64, np.float32, np.float64)  # dtypes of columns

Directory = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # see `Arena.directory`

UNIT = 4  # places; every size is a multiple of it
SIZES = np.array([UNIT, *(n * UNIT << k for k in range(40) for n in (2, 3))], dtype=np.int64)  # 4, 8, 12, 16, 24, 32, …
N_SIZES = len(SIZES)
NONE = -1  # no free place
MIN_ROOM = 4096  # places of an empty arena
STAYS = -2  # result of `new_place` if the row has room
FULL = -1  # result of `new_place` if no room is left


def sizes_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The smallest block size for rows of these lengths, int64 (R,); 0 for an empty row."""
    sizes: NDArray[np.int64] = np.where(lengths, SIZES[np.searchsorted(SIZES, lengths)], 0)
    return sizes


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def move_rows(
    target: Annotated[NDArray[Any], NUMBERS],
    target_starts: NDArray[np.int64],
    source: Annotated[NDArray[Any], NUMBERS],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Copy every row of one column to its new position in another array."""
    for x in range(len(starts)):
        for n in range(lengths[x]):
            target[target_starts[x] + n] = source[starts[x] + n]


@njit(cache=True, nogil=True)
def size_of(length: Int) -> int:
    """Index of the smallest of the `SIZES` for a row of this length. Short rows are the most."""
    size = 0
    while SIZES[size] < length:
        size += 1
    return size


@njit(cache=True, nogil=True)
def new_place(row: Int, rows: Directory, first_column: NDArray[np.int32]) -> Int:
    """Find room for one more entry of a row.

    Returns:
        `STAYS`, `FULL`, or the start of a longer block, whose size is now the row's capacity: the caller copies the
        row's columns there, sets its start and frees the old block.
    """
    _, lengths, capacities, ends = rows
    if lengths[row] < capacities[row]:
        return STAYS
    size = size_of(lengths[row] + 1)
    position: Int = ends[1 + size] * UNIT
    if position >= 0:
        ends[1 + size] = first_column[position]
    elif ends[0] + SIZES[size] <= len(first_column):
        position = ends[0]
        ends[0] += SIZES[size]
    else:
        return FULL
    capacities[row] = SIZES[size]
    return position


@njit(cache=True, nogil=True)
def give_back(start: Int, capacity: Int, ends: NDArray[np.int64], first_column: NDArray[np.int32]) -> None:
    """Free the block of `capacity` at `start`; does nothing for a capacity of 0."""
    if capacity > 0:
        size = size_of(capacity)
        first_column[start] = ends[1 + size]
        ends[1 + size] = start // UNIT


@njit(cache=True, nogil=True)
def clear(row: Int, rows: Directory, first_column: NDArray[np.int32]) -> None:
    """Empty a row and free its block."""
    starts, lengths, capacities, ends = rows
    give_back(starts[row], capacities[row], ends, first_column)
    starts[row], lengths[row], capacities[row] = 0, 0, 0


class Arena:
    """Row x is the slice `starts[x] : starts[x] + lengths[x]` of every column.

    A kernel that appends to a full row moves it to a longer block and frees the old one. Blocks have few sizes, so that
    other rows can use a freed one. So growth never copies the whole array. If all rows grow in step, the short blocks
    that they leave are of no use, and can take as much memory as the rows; `pack` frees them.

    Attributes:
        starts, lengths, capacities: int64 (R,), per row.
        columns: parallel flat arrays, the first one int32.
        ends: int64 (1 + `N_SIZES`,): the first position behind all rows, then the heads of the lists of free blocks;
            an array so that kernels can change them.
    """

    def __init__(self, *dtypes: type[np.generic]) -> None:
        self._rows = [Growing(np.zeros(0, dtype=np.int64)) for _ in range(3)]
        self._columns = [Growing(np.zeros(MIN_ROOM, dtype=dtype)) for dtype in dtypes]
        self.ends = np.full(1 + N_SIZES, NONE)
        self.ends[0] = 0
        self._point()

    @property
    def n_rows(self) -> int:
        """R, rows, including empty ones."""
        return len(self.starts)

    @property
    def directory(self) -> Directory:
        """(starts, lengths, capacities, ends), by which kernels find and move rows."""
        return self.starts, self.lengths, self.capacities, self.ends

    @property
    def n_bytes(self) -> int:
        """Bytes in use, including freed blocks."""
        used: int = int(self.ends[0]) * sum(column.itemsize for column in self.columns)
        return used + sum(rows.n_bytes for rows in self._rows)

    def grow(self, n_rows: int) -> None:
        """Grow to at least `n_rows`; new rows are empty."""
        for rows in self._rows:
            rows.grow(n_rows)
        self._point()

    def make_room(self, n_places: int) -> None:
        """Lengthen the columns so that at least `n_places` positions are free behind all rows."""
        for column in self._columns:
            column.grow(max(int(self.ends[0]) + n_places, MIN_ROOM))
        self._point()

    def pack(self) -> None:
        """Copy the rows to new columns, close together; takes seconds for a hundred million places."""
        capacities, starts = _close_together(self.lengths)
        for n, column in enumerate(self.columns):  # one at a time, so that only one column is in memory twice
            self._columns[n] = Growing.filled((max(int(capacities.sum()), MIN_ROOM),), column.dtype.type)
            move_rows(self._columns[n].values, starts, column, self.starts, self.lengths)
        self._settle(capacities, starts)

    def empty(self, lengths: NDArray[np.int64]) -> None:
        """Drop all content; the rows, now empty, have room for `lengths` (R,) entries, close together."""
        capacities, starts = _close_together(lengths)
        for n, column in enumerate(self._columns):
            self._columns[n] = Growing.filled((max(int(capacities.sum()), MIN_ROOM),), column.values.dtype.type)
        self.lengths[:] = 0
        self._settle(capacities, starts)

    def copied(self) -> Arena:
        """A copy that shares nothing; a third of a second for a gigabyte."""
        other = Arena(*(column.dtype.type for column in self.columns))
        other.grow(self.n_rows)
        used = int(self.ends[0])
        other.make_room(used)
        for theirs, ours in zip(other.directory, self.directory, strict=True):
            theirs[:] = ours
        for theirs, ours in zip(other.columns, self.columns, strict=True):
            theirs[:used] = ours[:used]
        return other

    def _settle(self, capacities: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
        """Have the rows at `starts`, close together, in the present columns."""
        self.starts[:], self.capacities[:] = starts, capacities
        self.ends[:] = NONE
        self.ends[0] = capacities.sum()
        self._point()

    def _point(self) -> None:
        self.starts, self.lengths, self.capacities = (rows.values for rows in self._rows)
        self.columns: tuple[Any, ...] = tuple(column.values for column in self._columns)


def _close_together(lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(capacities, starts) of rows of these lengths, (R,), one behind the other."""
    capacities = sizes_of(lengths)
    return capacities, np.cumsum(capacities) - capacities
