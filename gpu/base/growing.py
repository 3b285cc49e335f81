"""Arrays on the host that grow by rows without a copy each time, at any length.

A short array is copied into a longer one. From `RESERVED_FROM` bytes on a copy would be a pause (half a second for a
gigabyte). So a long array reserves addresses for far more rows than will come: unwritten pages take no memory, and
growth is a longer view. If the system grants no such reservation (`vm.overcommit_memory=2`), long arrays are copied
too.
"""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESERVED_FROM = 2**20  # bytes; longer arrays reserve addresses
RESERVED_BYTES = 2**36  # bytes; addresses reserved for an array, if this is more than the next line gives
RESERVED_TIMES = 4  # addresses reserved for an array, in multiples of its length
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python's mmap names from 3.13 on


class Growing:
    """An array whose first axis may grow.

    Attributes:
        values: the array at its present length, a view of a longer one; earlier views share its rows unless a short
            array was copied.
    """

    def __init__(self, values: NDArray[Any], fill: float = 0) -> None:
        """Take over `values`, (rows, …); new rows hold `fill`. The first growth of a long array copies it, once."""
        self._buffer, self._fill = values, fill
        self.values = values

    @classmethod
    def filled(cls, shape: tuple[int, ...], dtype: type[np.generic], fill: float = 0) -> Growing:
        """A new array whose growth never copies more than `RESERVED_FROM` bytes."""
        made = cls(np.zeros((0, *shape[1:]), dtype=dtype), fill)
        made.grow(shape[0])
        return made

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows in use."""
        return self.values.nbytes

    def grow(self, n_rows: int) -> None:
        """Grow to at least `n_rows`, in amortized constant time a row."""
        length = len(self.values)
        if n_rows > len(self._buffer):
            longer = _zeros((n_rows, *self.values.shape[1:]), self.values.dtype)
            longer[:length] = self.values
            self._buffer = longer
        if n_rows > length:
            self.values = self._buffer[:n_rows]
            if self._fill:
                self.values[length:] = self._fill


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros of at least `shape`, with spare rows."""
    n_rows, row_bytes = shape[0], math.prod(shape[1:]) * dtype.itemsize
    if n_rows * row_bytes >= RESERVED_FROM:
        n_spare = max(RESERVED_BYTES // row_bytes, RESERVED_TIMES * n_rows)
        try:
            pages = mmap.mmap(-1, n_spare * row_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except OSError:
            pass
        else:
            pages.madvise(mmap.MADV_HUGEPAGE)  # as NumPy does: fewer misses in the table of pages
            return np.frombuffer(pages, dtype).reshape(n_spare, *shape[1:])
    return np.zeros((n_rows + n_rows // 2, *shape[1:]), dtype=dtype)
