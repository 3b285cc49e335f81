"""Changes of items that several ranks add up, on the device; see `gpu.descent.delayed_items`.

All changes lie in one array: several exchanges would take longer. What comes before and after an exchange are few
launches: kernels/descent_sums.cu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.arrays import to_device
from gpu.cuda.launcher import Launcher

THREADS, WIDE, MOST_BLOCKS = 256, 1024, 2048  # as in kernels/descent_sums.cu; a thread has every n-th number
EDGE, N_SPLITS = 16, 8  # rows of a tile of Σ u uᵀ, and blocks that share its users
N_ARRAYS = 4
CHANGED = np.dtype(
    [("now", "<u8", N_ARRAYS), ("old", "<u8", N_ARRAYS), ("ends", "<i8", N_ARRAYS), ("ways", "<f4", N_ARRAYS),
     ("widths", "<i4", N_ARRAYS)]
)  # fmt: skip

run = Launcher("descent_sums", {})


def blocks_of(n: int) -> int:
    """Blocks that share `n` numbers."""
    return min(-(-n // THREADS), MOST_BLOCKS)


class ItemChanges:
    """See `gpu.descent.host_item_changes.ItemChanges`; arrays lie on the device, and `counts` on the host."""

    def __init__(self, arrays: Sequence[Any], counts: NDArray[np.int64], size: int) -> None:
        self._counts, self._size = to_device(counts.astype(np.float32)), size
        self._old = [array.copy() for array in arrays]
        sizes = np.array([array.size for array in arrays] + [0] * (N_ARRAYS - len(arrays)), dtype=np.int64)
        self._ends, self._n = np.cumsum(sizes), int(sizes.sum())
        self._widths = np.ones(N_ARRAYS, dtype=np.int32)
        self._widths[: len(arrays)] = [max(array.size // max(len(array), 1), 1) for array in arrays]
        self._total = cupy.empty(self._n + 1, dtype=cupy.float32)
        self._moments = cupy.empty(0, dtype=cupy.float32)

    def remember(self, arrays: Sequence[Any]) -> None:
        """Count changes from here on."""
        run("remember", blocks_of(self._n), THREADS, self._changed(arrays))

    def collect(self, arrays: Sequence[Any], users: Any) -> Any:
        """What ranks have to add up; see the twin."""
        run("collect", blocks_of(self._n), THREADS, self._changed(arrays), self._total)
        (n, n_factors), width = users.shape, users.strides[0] // users.itemsize
        if self._moments.size < N_SPLITS * n_factors**2:
            self._moments = cupy.empty(N_SPLITS * n_factors**2, dtype=cupy.float32)
        grid = (-(-n_factors // EDGE)) ** 2, N_SPLITS
        sizes = np.int32(users.dtype == cupy.float16), np.int32(width), np.int32(n), np.int32(n_factors)
        run("add_moments", grid, THREADS, users, *sizes, self._moments)
        scale = np.float32(1 / n)
        run("norm_of", 1, WIDE, self._moments, np.int32(n_factors**2), scale, self._total[-1:])
        return self._total

    def apply(self, arrays: Sequence[Any], ways: Sequence[float]) -> None:
        """Set the arrays to their start and a share of the total changes; see the twin."""
        changed = self._changed(arrays, ways)
        run("apply", blocks_of(self._n), THREADS, changed, self._total, self._counts, np.float32(self._size))

    def _changed(self, arrays: Sequence[Any], ways: Sequence[float] = ()) -> NDArray[np.void]:
        """`Changed` of the kernels, by value."""
        changed = np.zeros((), dtype=CHANGED)
        changed["now"][: len(arrays)] = [array.data.ptr for array in arrays]
        changed["old"][: len(arrays)] = [array.data.ptr for array in self._old]
        changed["ends"], changed["widths"] = self._ends, self._widths
        changed["ways"][: len(ways)] = ways
        return changed.view(f"V{CHANGED.itemsize}")  # CuPy spells out the fields of a structure at each launch
