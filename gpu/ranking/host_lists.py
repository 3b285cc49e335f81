"""Lists of the best rows on the host, and cosines by which rows are ranked.

While a list is filled, it is a heap with the worst entry first, ordered by score and row.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import Int

ROWS_AT_ONCE = 2048  # rows that a thread takes at a time
STRIP = 64  # scores compared at a time; they are checked one by one only if one of them is above the worst entry


@njit(cache=True, nogil=True, inline="always")
def ranks_below(score: float, row: Int, other_score: float, other_row: Int) -> bool | np.bool_:
    """The order of every list: by score, ties to the lower row."""
    return score < other_score or (score == other_score and row > other_row)


@njit(cache=True, nogil=True)
def sift_down(scores: NDArray[np.float32], rows: NDArray[np.int32], length: Int) -> None:
    """Restore the heap of `length` entries after its first entry was replaced."""
    parent = 0
    while 2 * parent + 1 < length:
        child = 2 * parent + 1
        if child + 1 < length and ranks_below(scores[child + 1], rows[child + 1], scores[child], rows[child]):
            child += 1
        if not ranks_below(scores[child], rows[child], scores[parent], rows[parent]):
            return
        scores[child], scores[parent] = scores[parent], scores[child]
        rows[child], rows[parent] = rows[parent], rows[child]
        parent = child


@njit(cache=True, nogil=True)
def sort_best_first(scores: NDArray[np.float32], rows: NDArray[np.int32]) -> None:
    """Turn a heap into a list, best first."""
    for length in range(len(rows) - 1, 0, -1):
        scores[0], scores[length] = scores[length], scores[0]
        rows[0], rows[length] = rows[length], rows[0]
        sift_down(scores, rows, length)


@njit(cache=True, nogil=True)
def n_above(scores: NDArray[np.float32], worst: np.float32) -> int:
    """Number of scores above `worst`. LLVM vectorizes this count, but not the search for the largest score."""
    n = 0
    for j in range(len(scores)):
        n += scores[j] > worst
    return n


@njit(cache=True, nogil=True)
def collect(scores: NDArray[np.float32], first: Int, best: NDArray[np.float32], rows: NDArray[np.int32]) -> None:
    """Insert the scores of items `first`, `first` + 1, … into a heap of lower rows; −inf is never inserted."""
    worst = best[0]
    if n_above(scores, worst) == 0:
        return
    for start in range(0, len(scores), STRIP):
        end = min(start + STRIP, len(scores))
        if n_above(scores[start:end], worst) == 0:
            continue
        for j in range(start, end):
            if scores[j] > worst:
                best[0], rows[0] = scores[j], first + j
                sift_down(best, rows, len(best))
                worst = best[0]


@njit(cache=True, nogil=True)
def collect_some(
    scores: NDArray[np.float32],
    first: Int,
    candidates: NDArray[np.int64],
    best: NDArray[np.float32],
    rows: NDArray[np.int32],
) -> None:
    """`collect` for `candidates` only, item rows that ascend; `scores` begins at item `first`."""
    for j in candidates:
        if scores[j - first] > best[0]:
            best[0], rows[0] = scores[j - first], j
            sift_down(best, rows, len(best))


@njit(cache=True, nogil=True)
def join(best: NDArray[np.float32], rows: NDArray[np.int32]) -> None:
    """Merge the heaps of one user, (parts, m), into the first, and sort that best first."""
    for part in range(1, len(best)):
        for n in range(best.shape[1]):
            if ranks_below(best[0, 0], rows[0, 0], best[part, n], rows[part, n]):
                best[0, 0], rows[0, 0] = best[part, n], rows[part, n]
                sift_down(best[0], rows[0], best.shape[1])
    sort_best_first(best[0], rows[0])


@called_for(Use.ANSWERS)
@njit(cache=True, nogil=True)
def best_of_all(
    scores: NDArray[np.float32], hidden: NDArray[np.bool_], best: NDArray[np.float32], rows: NDArray[np.int32]
) -> None:
    """Write the `len(best)` best rows that are not hidden to `best` and `rows`, best first, padded with −inf and −1.

    Args:
        scores: float32 (R,), overwritten.
        hidden: bool (R,).
    """
    best[:], rows[:] = -np.inf, -1
    for row in range(len(scores)):
        if hidden[row]:
            scores[row] = -np.inf
    collect(scores, 0, best, rows)
    sort_best_first(best, rows)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> np.float32:
    """Cosine of two vectors (F,); −inf if `other` is zero."""
    product, of_one, of_other = np.float32(0), np.float32(0), np.float32(0)
    for f in range(len(one)):
        product += one[f] * other[f]
        of_one += one[f] * one[f]
        of_other += other[f] * other[f]
    return np.float32(product / (np.sqrt(of_one) * np.sqrt(of_other))) if of_other > 0 else np.float32(-np.inf)


@called_for(Use.FACTORS)
@njit(cache=True, nogil=True, parallel=True)
def cosines(factors: Annotated[NDArray[np.float32], 2], vector: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the cosine of `vector` (F,), which is not zero, and each row of `factors` (R, F) to `out` (R,)."""
    for part in prange((len(factors) + ROWS_AT_ONCE - 1) // ROWS_AT_ONCE):
        for other in range(part * ROWS_AT_ONCE, min((part + 1) * ROWS_AT_ONCE, len(factors))):
            out[other] = cosine(vector, factors[other])
