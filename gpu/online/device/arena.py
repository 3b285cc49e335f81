"""`Arena` on the device: rows of unequal, changing length in flat arrays; twin of `gpu.data.host_arena.Arena`."""

from __future__ import annotations

from typing import Any

import cupy

from gpu.cuda.growing import Growing
from gpu.cuda.launcher import Launcher
from gpu.cuda.structures import structure

run = Launcher("rating_table", {})
ROW_THREADS = 128  # as kernels/rating_table.cu has it
# Spare room: 1/8 of a row and 1/4 of the array, as in `gpu.data.host_arena`; and free positions after packing, at
# least.
ROW_SPARE, END_SPARE, MIN_ROOM = 8, 4, 65_536


class Arena:
    """Row x is the slice `starts[x] : starts[x] + lengths[x]` of every column.

    Attributes:
        starts, lengths, capacities: int64 (R,), per row.
        columns: parallel flat arrays, of four or eight bytes an entry.
        end: int64 (1,), first position behind all rows.
    """

    def __init__(self, starts: Any, lengths: Any, columns: list[Any]) -> None:
        """Take over rows without spare room."""
        self._starts, self._lengths, self._capacities = Growing(starts), Growing(lengths), Growing(lengths.copy())
        self.columns = columns
        self.end = cupy.zeros(1, dtype=cupy.int64)
        self._end = len(columns[0])  # the host's upper bound of `end`

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def starts(self) -> Any:
        """First position of each row."""
        return self._starts.values

    @property
    def lengths(self) -> Any:
        """Entries of each row."""
        return self._lengths.values

    @property
    def directory(self) -> tuple[Any, Any, Any, Any]:
        """Fields of `Directory` of the kernels."""
        return self._starts, self._lengths, self._capacities, self.end

    def grow(self, n_rows: int) -> None:
        """Grow to at least `n_rows`; new rows are empty."""
        for part in (self._starts, self._lengths, self._capacities):
            part.grow(n_rows)

    def take(self, n_places: int, most: int) -> None:
        """Reserve `n_places` positions at the end; if they do not fit, pack the rows and reserve `most`."""
        if self._end + n_places > len(self.columns[0]):
            self.pack(most)
            self._end += most
        else:
            self._end += n_places

    def pack(self, n_places: int) -> None:
        """Pack the rows so that at least `n_places` positions are free behind them, and every row has spare room."""
        capacities = self.lengths + (self.lengths + ROW_SPARE - 1) // ROW_SPARE
        bounds = cupy.cumsum(capacities)
        starts, used = bounds - capacities, int(bounds[-1]) if len(bounds) else 0
        size = used + max(n_places, used // END_SPARE) + MIN_ROOM
        for n, column in enumerate(self.columns):  # one at a time, so that only one column is in memory twice
            target = cupy.zeros(size, dtype=column.dtype)
            if len(starts):
                function = f"move_{column.dtype.itemsize}"
                run(function, len(starts), ROW_THREADS, structure(*self.directory), starts, column, target)
            self.columns[n] = target
        self._starts.values[:], self._capacities.values[:] = starts, capacities
        self.end.fill(used)
        self._end = used
