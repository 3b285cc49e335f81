"""`NumberColumn`: the numbers of one name by item row, which change one by one and are compared as a whole."""

from __future__ import annotations

import math

import numpy as np

from gpu.base.growing import Growing
from gpu.ranking.eligible import Eligible
from service.engine.state.row_set import MAX_CHANGES, MIN_CHANGES, Bits, n_words, set_rows

DENSE = 8  # with numbers of more than 1 / DENSE of all items a column takes less time, and at most twice the memory


class NumberColumn:
    """A sorted list of rows with their numbers, or a float32 for each item if many have one.

    So a name that few items have takes 8 bytes for each of them, and nothing for the others. Changes wait until the
    column is read, or until there are many of them.

    Attributes:
        n: items that have a number.
    """

    def __init__(self) -> None:
        self.n = 0
        self._rows = np.zeros(0, dtype=np.int32)  # ascending; not used while there is a column
        self._values = np.zeros(0, dtype=np.float32)
        self._column: Growing | None = None
        self._changes: dict[int, float] = {}  # NaN: none

    @property
    def n_bytes(self) -> int:
        """Bytes of the list or the column."""
        return self._rows.nbytes + self._values.nbytes if self._column is None else self._column.n_bytes

    def change(self, row: int, old: float | None, new: float | None, n_rows: int) -> None:
        """The number of `row`, one of `n_rows`, changes from `old` to `new`; None: it has none."""
        self.n += (new is not None) - (old is not None)
        self._changes[row] = math.nan if new is None else new
        if len(self._changes) >= min(max(MIN_CHANGES, self.n // 4), MAX_CHANGES):
            self.pack(n_rows)

    def within(self, least: float, most: float, n_rows: int) -> Bits:
        """The rows whose number, as float32, is from `least` to `most`, both included; the bits of `n_rows` rows."""
        self.pack(n_rows)
        numbers = self._values if self._column is None else self._column.values
        is_within = (numbers >= np.float32(least)) & (numbers <= np.float32(most))
        bits = np.zeros(n_words(n_rows), dtype=np.uint32)
        if self._column is None:
            set_rows(bits, self._rows[is_within])
        else:
            column_bits = Eligible.of(is_within).bits
            bits[: len(column_bits)] = column_bits
        return bits

    def pack(self, n_rows: int) -> None:
        """Sort the changes in; there are `n_rows` rows in all."""
        if not self._changes:
            return
        rows = np.fromiter(self._changes, dtype=np.int32)
        values = np.fromiter(self._changes.values(), dtype=np.float32)
        self._changes = {}
        if self._column is None and self.n * DENSE > n_rows:
            self._column = Growing.filled((n_rows,), np.float32, np.nan)
            self._column.values[self._rows] = self._values
        if self._column is not None:
            self._column.grow(n_rows)
            self._column.values[rows] = values
            if self.n * DENSE * 2 >= n_rows:
                return
            rows = np.flatnonzero(~np.isnan(self._column.values)).astype(np.int32)
            self._rows, self._values, self._column = rows, self._column.values[rows], None
            return
        stay = ~np.isin(self._rows, rows)
        rows, values = np.append(self._rows[stay], rows), np.append(self._values[stay], values)
        order = np.argsort(rows)
        order = order[~np.isnan(values[order])]
        self._rows, self._values = rows[order], values[order]
