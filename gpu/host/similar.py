"""Cosines of one row with all others on the host: every row is read once, by all threads."""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpu.host.arena import Int

ROWS_AT_ONCE = 2048  # of a thread


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> np.float32:
    """The cosine of two rows; −inf where `other` has no direction."""
    product, of_one, of_other = np.float32(0), np.float32(0), np.float32(0)
    for f in range(len(one)):
        product += one[f] * other[f]
        of_one += one[f] * one[f]
        of_other += other[f] * other[f]
    return np.float32(product / (np.sqrt(of_one) * np.sqrt(of_other))) if of_other > 0 else np.float32(-np.inf)


@njit(cache=True, nogil=True, parallel=True)
def cosines(factors: NDArray[np.float32], row: Int, found: NDArray[np.float32]) -> None:
    """Write the cosine of `row`, which has a direction, and each row of `factors` (R, F) to `found` (R,)."""
    for part in prange((len(factors) + ROWS_AT_ONCE - 1) // ROWS_AT_ONCE):
        for other in range(part * ROWS_AT_ONCE, min((part + 1) * ROWS_AT_ONCE, len(factors))):
            found[other] = cosine(factors[row], factors[other])
