"""`Arena`: rows of unequal, changing length in a few flat arrays, so that millions of them cost no Python object."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.host.arena import Directory, move_rows

ROW_SPARE = 8  # packing leaves each row an eighth of its length to grow in,
END_SPARE = 4  # and a quarter of all at the end for rows that need more
MIN_ROOM = 4096  # free places at the end after packing


class Arena:
    """Row x is the slice `starts[x] : starts[x] + lengths[x]` of every column.

    A kernel that appends to a full row moves it to the end of the arena with twice its room and leaves its old place
    empty. When the end is reached, `make_room` packs the rows anew: amortised constant time per appended place.

    Attributes:
        starts, lengths, capacities: int64 (R,), per row.
        columns: parallel flat arrays.
        end: int64 (1,), first place that belongs to no row; an array so that kernels can move it.
    """

    def __init__(self, *dtypes: type[np.generic]) -> None:
        self._directory = np.zeros((3, 0), dtype=np.int64)
        self.columns: tuple[NDArray[Any], ...] = tuple(np.empty(MIN_ROOM, dtype=dtype) for dtype in dtypes)
        self.end = np.zeros(1, dtype=np.int64)
        self._point_at(0)

    @property
    def n_rows(self) -> int:
        """R, rows (empty ones too)."""
        return len(self.starts)

    @property
    def directory(self) -> Directory:
        """(starts, lengths, capacities, end), by which kernels find and move rows."""
        return self.starts, self.lengths, self.capacities, self.end

    @property
    def n_bytes(self) -> int:
        """Bytes held, spare room included."""
        return self._directory.nbytes + sum(column.nbytes for column in self.columns)

    def grow(self, n_rows: int) -> None:
        """Lengthen to at least `n_rows`; new rows are empty."""
        held = self._directory.shape[1]
        if n_rows > held:
            longer = np.zeros((3, max(n_rows, held + held // 2)), dtype=np.int64)
            longer[:, :held] = self._directory
            self._directory = longer
        self._point_at(max(n_rows, self.n_rows))

    def make_room(self, n_places: int) -> None:
        """Pack the rows so that at least `n_places` are free behind them."""
        capacities = self.lengths + (self.lengths + ROW_SPARE - 1) // ROW_SPARE
        starts = np.zeros_like(self.starts)
        np.cumsum(capacities[:-1], out=starts[1:])
        used = int(capacities.sum())
        size = used + max(n_places, used // END_SPARE, MIN_ROOM)
        packed = []
        for column in self.columns:  # one at a time: only one is ever held twice
            target = np.empty(size, dtype=column.dtype)
            move_rows(target, starts, column, self.starts, self.lengths)
            packed.append(target)
        self.columns = tuple(packed)
        self.starts[:], self.capacities[:], self.end[0] = starts, capacities, used

    def _point_at(self, n_rows: int) -> None:
        self.starts, self.lengths, self.capacities = self._directory[:, :n_rows]
