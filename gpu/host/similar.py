"""Cosines of one row with all others on the host, of factors or of ratings: every row is read once, by all threads."""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpu.host.arena import Int
from gpu.ratings import Rows

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


@njit(cache=True, nogil=True, parallel=True)
def cosines_of_rows(
    rows: Rows,
    line: NDArray[np.float32],
    length: np.float32,
    middle: np.float32,
    disliked: np.float32,
    found: NDArray[np.float32],
) -> None:
    """Write the cosine of `line` (I,), of this length, and each row of ratings to `found` (U,); −inf for empty rows.

    A rating from `middle` on counts as 1, one below it as `disliked`.
    """
    for part in prange((len(found) + ROWS_AT_ONCE - 1) // ROWS_AT_ONCE):
        for user in range(part * ROWS_AT_ONCE, min((part + 1) * ROWS_AT_ONCE, len(found))):
            product, squares = np.float32(0), np.float32(0)
            for place in range(rows.starts[user], rows.starts[user] + rows.lengths[user]):
                x = np.float32(1) if rows.values[place] >= middle else disliked
                product += x * line[rows.items[place]]
                squares += x * x
            found[user] = product / (length * np.sqrt(squares)) if squares > 0 else np.float32(-np.inf)
