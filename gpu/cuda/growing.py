"""Arrays on the device that grow by rows without a copy each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy


class Growing:
    """An array whose first axis may grow; spare rows are half of its length.

    Attributes:
        buffer: the array and its spare rows; it moves when it grows beyond them.
    """

    def __init__(self, values: Any, fill: float = 0) -> None:
        """Take over `values`, (rows, …) on the device; new rows hold `fill`."""
        self.buffer, self._n_rows = values, len(values)
        shape, dtype = values.shape[1:], values.dtype
        self._new: Callable[[int], Any] = lambda n_rows: cupy.full((n_rows, *shape), fill, dtype)

    def __len__(self) -> int:
        return self._n_rows

    @property
    def values(self) -> Any:
        """The array at its present length, a view of `buffer`."""
        return self.buffer[: self._n_rows]

    def grow(self, n_rows: int) -> None:
        """Grow to at least `n_rows`, in amortized constant time a row; the device works only if the array moves."""
        held = len(self.buffer)
        if n_rows > held:
            longer = self._new(max(n_rows, held + held // 2))
            longer[:held] = self.buffer
            self.buffer = longer
        self._n_rows = max(n_rows, self._n_rows)


class Counting(Growing):
    """Ascending numbers, int64; new rows continue with consecutive numbers."""

    def __init__(self, values: Any, following: int) -> None:
        """Take over `values`; the first new row holds `following`, the next one `following` + 1, and so on."""
        super().__init__(values)
        offset = following - len(values)
        self._new = lambda n_rows: cupy.arange(offset, offset + n_rows)
