"""`RowSet`: a set of item rows that changes one by one and is read as bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.ranking.eligible import WORD

DENSE = 32  # a set with more than 1 / DENSE of all rows is kept as bits: a list would take more memory
MIN_CHANGES, MAX_CHANGES = 64, 4096  # rows that wait to be sorted in: a quarter of the set within these bounds

Bits = NDArray[np.uint32]  # as in `gpu.ranking.eligible.Eligible`


def n_words(n_rows: int) -> int:
    """Words that hold the bits of `n_rows` rows."""
    return -(-n_rows // WORD)


def set_rows(bits: Bits, rows: NDArray[np.integer]) -> None:
    """Set the bits of `rows`."""
    np.bitwise_or.at(bits, rows // WORD, np.uint32(1) << (rows % WORD).astype(np.uint32))


class RowSet:
    """A sorted list of rows, or their bits if there are many.

    Changes wait until the set is read, or until there are many of them.

    Attributes:
        n: rows in the set.
    """

    def __init__(self) -> None:
        self.n = 0
        self._rows = np.zeros(0, dtype=np.int32)  # ascending; not used while there are bits
        self._bits: Bits | None = None
        self._changes: dict[int, bool] = {}

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows or bits."""
        return self._rows.nbytes if self._bits is None else self._bits.nbytes

    def add(self, row: int, n_rows: int) -> None:
        """Add a row that is not in the set; there are `n_rows` rows in all."""
        self._change(row, n_rows, is_in=True)

    def remove(self, row: int, n_rows: int) -> None:
        """Remove a row of the set; there are `n_rows` rows in all."""
        self._change(row, n_rows, is_in=False)

    def add_to(self, bits: Bits, n_rows: int) -> None:
        """Set the bits of the rows of this set; there are `n_rows` rows in all."""
        self.pack(n_rows)
        if self._bits is None:
            set_rows(bits, self._rows)
        else:
            bits[: len(self._bits)] |= self._bits

    def pack(self, n_rows: int) -> None:
        """Sort the changes in; there are `n_rows` rows in all."""
        if not self._changes:
            return
        rows = np.fromiter(self._changes, dtype=np.int32)
        is_in = np.fromiter(self._changes.values(), dtype=np.bool_)
        self._changes = {}
        if self._bits is None and self.n * DENSE <= n_rows:
            self._rows = np.union1d(np.setdiff1d(self._rows, rows), rows[is_in])
        else:  # set and clear bits, and make them of the list if there are none yet
            bits = np.zeros(n_words(n_rows), dtype=np.uint32)
            if self._bits is None:
                set_rows(bits, self._rows)
                self._rows = np.zeros(0, dtype=np.int32)
            else:
                bits[: len(self._bits)] = self._bits
            gone = np.zeros_like(bits)
            set_rows(gone, rows[~is_in])
            bits &= ~gone
            set_rows(bits, rows[is_in])
            self._bits = bits
        if self._bits is not None and 2 * self.n * DENSE < n_rows:
            self._rows = np.flatnonzero(np.unpackbits(self._bits.view(np.uint8), bitorder="little")).astype(np.int32)
            self._bits = None

    def _change(self, row: int, n_rows: int, *, is_in: bool) -> None:
        self.n += 1 if is_in else -1
        self._changes[row] = is_in
        if len(self._changes) >= min(max(MIN_CHANGES, self.n // 4), MAX_CHANGES):
            self.pack(n_rows)
