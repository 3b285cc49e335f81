"""`Arena`: rows of unequal, changing length in a few flat arrays, so that millions of them cost no Python object."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.growing import Growing
from gpu.host.arena import N_SIZES, NONE, Directory, move_rows, sizes_of

MIN_ROOM = 4096  # places of an empty arena


class Arena:
    """Row x is the slice `starts[x] : starts[x] + lengths[x]` of every column.

    A kernel that appends to a full row moves it to a longer place and gives the old one back; places have few sizes,
    so that what one row leaves another takes. So growth never copies what is there, and never has to. Where all rows
    grow in step, the short places that they leave are of no use: they can take as much as the rows; `pack` frees them.

    Attributes:
        starts, lengths, capacities: int64 (R,), per row.
        columns: parallel flat arrays, the first one int32.
        ends: int64 (1 + `N_SIZES`,): the first place that belongs to no row, then the free places (`gpu.host.arena`);
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
        """R, rows (empty ones too)."""
        return len(self.starts)

    @property
    def directory(self) -> Directory:
        """(starts, lengths, capacities, ends), by which kernels find and move rows."""
        return self.starts, self.lengths, self.capacities, self.ends

    @property
    def n_bytes(self) -> int:
        """Bytes in use, places that rows have left included."""
        used = int(self.ends[0]) * sum(column.itemsize for column in self.columns)
        return used + sum(rows.n_bytes for rows in self._rows)

    def grow(self, n_rows: int) -> None:
        """Lengthen to at least `n_rows`; new rows are empty."""
        for rows in self._rows:
            rows.grow(n_rows)
        self._point()

    def make_room(self, n_places: int) -> None:
        """Lengthen the columns so that at least `n_places` are free behind all rows."""
        for column in self._columns:
            column.grow(max(int(self.ends[0]) + n_places, MIN_ROOM))
        self._point()

    def pack(self) -> None:
        """Copy the rows to new columns, close together; takes seconds for a hundred million places."""
        capacities = sizes_of(self.lengths)
        starts = np.cumsum(capacities) - capacities
        used = int(capacities.sum())
        for n, column in enumerate(self._columns):  # one at a time: only one is ever held twice
            packed = Growing.filled((max(used, MIN_ROOM),), column.values.dtype.type)
            move_rows(packed.values, starts, column.values, self.starts, self.lengths)
            self._columns[n] = packed
        self.starts[:], self.capacities[:] = starts, capacities
        self.ends[:] = NONE
        self.ends[0] = used
        self._point()

    def _point(self) -> None:
        self.starts, self.lengths, self.capacities = (rows.values for rows in self._rows)
        self.columns: tuple[NDArray[Any], ...] = tuple(column.values for column in self._columns)
