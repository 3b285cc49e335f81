"""Changes of items that several ranks add up, on the host; see `gpu.descent.delayed_items`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
SMALL = 1e-6  # p below which s is 1 within float32


class ItemChanges:
    """What a rank changes in the arrays of items since `remember`, and the sum over ranks.

    Arrays are those of `LEARNED_ITEMS`, float32, items first.
    """

    def __init__(self, arrays: Sequence[Floats], counts: NDArray[np.int64], size: int) -> None:
        """Remember the arrays.

        Args:
            arrays: as they are now.
            counts: (I,), ratings of each item on all ranks.
            size: number of ranks.
        """
        self._counts, self._size = counts.astype(np.float32), size
        self.remember(arrays)

    def remember(self, arrays: Sequence[Floats]) -> None:
        """Count changes from here on."""
        self._old = [array.copy() for array in arrays]

    def collect(self, arrays: Sequence[Floats], users: Floats) -> Floats:
        """What ranks have to add up: all changes, and κ of this rank's factors `users` (n, F); one-dimensional."""
        changes = [array - old for array, old in zip(arrays, self._old, strict=True)]
        moments = users.T @ users / len(users)
        self._total = np.concatenate([*(change.reshape(-1) for change in changes), [np.linalg.norm(moments)]])
        return self._total

    def apply(self, arrays: Sequence[Floats], ways: Sequence[float]) -> None:
        """Set the arrays to their start and a share of the total changes; `collect` has returned what ranks added up.

        Args:
            arrays: to change.
            ways: γ κ of each array, for factors without κ.
        """
        kappas = (self._total[-1] / self._size, *[1.0] * (len(arrays) - 1))
        first = 0
        for array, old, way, kappa in zip(arrays, self._old, ways, kappas, strict=True):
            change = self._total[first : first + array.size].reshape(array.shape)
            shares = share_of(self._counts, np.float32(way * kappa), self._size)
            array[...] = old + shares.reshape(-1, *[1] * (array.ndim - 1)) * change
            first += array.size


def share_of(counts: Floats, way: np.float32, size: int) -> Floats:
    """S of each item with `counts` ratings, if one rating goes the share `way` of the way: float32 (I,)."""
    p = np.maximum(-np.expm1(-way * counts / size), SMALL)
    shares: Floats = (-np.expm1(size * np.log1p(-np.minimum(p, 1 - SMALL))) / (size * p)).astype(np.float32)
    return shares
