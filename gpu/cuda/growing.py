"""Arrays on the device that grow by rows without a copy each time."""

from __future__ import annotations

from typing import Any

import cupy


class Growing:
    """An array whose first axis may grow; spare rows are half of its length.

    Attributes:
        buffer: the array and its spare rows; it moves when it grows beyond them.
    """

    def __init__(self, values: Any, fill: float = 0) -> None:
        """Take over `values`, (rows, …) on the device; new rows hold `fill`."""
        self.buffer, self._fill, self._n_rows = values, fill, len(values)

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
            self.buffer = self._longer(self.buffer, max(n_rows, held + held // 2))
        self._n_rows = max(n_rows, self._n_rows)

    def _longer(self, held: Any, n_rows: int) -> Any:
        longer = cupy.full((n_rows, *held.shape[1:]), self._fill, held.dtype)
        longer[: len(held)] = held
        return longer


class Counting(Growing):
    """Ascending numbers, int64; new rows continue with consecutive numbers."""

    def __init__(self, values: Any, following: int) -> None:
        """Take over `values`; the first new row holds `following`, the next one `following` + 1, and so on."""
        super().__init__(values)
        self._offset = following - len(values)

    def _longer(self, held: Any, n_rows: int) -> Any:
        longer = cupy.arange(self._offset, self._offset + n_rows)
        longer[: len(held)] = held
        return longer
