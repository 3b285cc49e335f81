"""Arrays on the device that gain rows now and then without being copied each time."""

from __future__ import annotations

from typing import Any

import cupy


class Growing:
    """An array whose first axis may grow; spare rows are taken by the half.

    Attributes:
        values: the array at its present length, a view of a longer one.
    """

    def __init__(self, values: Any, fill: float = 0) -> None:
        """Adopt `values`, (rows, …) on the device; new rows hold `fill`."""
        self._buffer, self._fill = values, fill
        self.values = values

    def grow(self, n_rows: int) -> None:
        """Lengthen to at least `n_rows`: amortised constant time a row."""
        held = len(self._buffer)
        if n_rows > held:
            longer = cupy.full((max(n_rows, held + held // 2), *self._buffer.shape[1:]), self._fill, self._buffer.dtype)
            longer[:held] = self._buffer
            self._buffer = longer
        self.values = self._buffer[: max(n_rows, len(self.values))]
