"""Changes of items that several ranks add up, on the device; see `gpu.descent.delayed_items`.

All changes lie in one array: several exchanges would take longer. Each array needs one kernel before the exchange, and
one after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.arrays import to_device

_norm = cupy.ReductionKernel("float32 x", "float32 y", "x * x", "a + b", "y = sqrtf(a)", "0", "nearfield_norm")
_subtract = cupy.ElementwiseKernel(
    "float32 now, float32 old", "float32 change", "change = now - old", "nearfield_changes"
)
# The share of `gpu.descent.host_item_changes.share_of`.
_add = cupy.ElementwiseKernel(
    "float32 old, float32 change, raw float32 counts, int32 width, float32 way, raw float32 kappa, float32 size",
    "float32 now",
    """
    const float gone = -expm1f(-way * (kappa.size() ? kappa[0] / size : 1.0f) * counts[i / width] / size);
    const float p = fminf(fmaxf(gone, 1e-6f), 1 - 1e-6f);
    now = old - expm1f(size * log1pf(-p)) / (size * p) * change;
    """,
    "nearfield_add_changes",
)


class ItemChanges:
    """See `gpu.descent.host_item_changes.ItemChanges`; arrays lie on the device, and `counts` on the host."""

    def __init__(self, arrays: Sequence[Any], counts: NDArray[np.int64], size: int) -> None:
        self._counts, self._size = to_device(counts.astype(np.float32)), size
        self._old = [array.copy() for array in arrays]
        self._total = cupy.empty(sum(array.size for array in arrays) + 1, dtype=cupy.float32)
        ends = np.cumsum([array.size for array in arrays])
        self._changes = [
            self._total[end - array.size : end].reshape(array.shape) for array, end in zip(arrays, ends, strict=True)
        ]

    def remember(self, arrays: Sequence[Any]) -> None:
        """Count changes from here on."""
        for array, old in zip(arrays, self._old, strict=True):
            old[...] = array

    def collect(self, arrays: Sequence[Any], users: Any) -> Any:
        """What ranks have to add up; see the twin."""
        for array, old, change in zip(arrays, self._old, self._changes, strict=True):
            _subtract(array, old, change)
        scaled = cupy.multiply(users, np.float32(len(users) ** -0.5), dtype=cupy.float32)
        _norm(scaled.T @ scaled, self._total[-1])
        return self._total

    def apply(self, arrays: Sequence[Any], ways: Sequence[float]) -> None:
        """Set the arrays to their start and a share of the total changes; see the twin."""
        kappas = self._total[-1:], *[self._total[:0]] * (len(arrays) - 1)
        for array, old, change, way, kappa in zip(arrays, self._old, self._changes, ways, kappas, strict=True):
            if array.size:
                width = np.int32(array.size // len(array))
                _add(old, change, self._counts, width, np.float32(way), kappa, np.float32(self._size), array)
