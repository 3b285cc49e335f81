"""Passes over all rows of ratings, on the CPU: sums of residuals (`gpu.data.baselines`), entries in some columns.

A block owns each `STRIDE`-th row, because rows with most ratings may be neighbors. A row is added up by one thread in
the order of its ratings, in float64: equal inputs give equal bits on any number of threads. The residuals are
r − μ − b of rated rows of the other side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.data.ratings import Rows

STRIDE = 256


def residual_sums(rows: Rows, mean: float, others: NDArray[np.float32]) -> NDArray[np.float64]:
    """Σ (r − b − `mean`) of each row, float64 (rows,); `others` are b of the other side's rows, float32."""
    sums = np.zeros(len(rows.starts))
    _add_residuals(sums, rows.starts, rows.lengths, rows.items, rows.values, mean, others)
    return sums


def residual_squares(
    rows: Rows, mean: float, own: NDArray[np.float32], others: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Σ (r − `mean` − b of the row − b of the other side)² of each row, float64 (rows,)."""
    sums = np.zeros(len(rows.starts))
    _add_squares(sums, rows.starts, rows.lengths, rows.items, rows.values, mean, own, others)
    return sums


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True)
def _add_residuals(
    sums: NDArray[np.float64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    mean: float,
    others: NDArray[np.float32],
) -> None:
    for first in prange(STRIDE):
        for row in range(first, len(starts), STRIDE):
            total = 0.0
            for n in range(starts[row], starts[row] + lengths[row]):
                total += np.float64(values[n] - others[columns[n]]) - mean
            sums[row] = total


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True)
def _add_squares(
    sums: NDArray[np.float64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    mean: float,
    own: NDArray[np.float32],
    others: NDArray[np.float32],
) -> None:
    for first in prange(STRIDE):
        for row in range(first, len(starts), STRIDE):
            total, known = 0.0, mean + np.float64(own[row])
            for n in range(starts[row], starts[row] + lengths[row]):
                left = np.float64(values[n]) - known - np.float64(others[columns[n]])
                total += left * left
            sums[row] = total


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True)
def find_columns(
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    items: NDArray[np.int32],
    first: int,
    end: int,
    begins: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Set `begins` (rows,) to where the entries from `first` to before `end` begin, and `counts` to their number.

    Entries of a row ascend, so these follow one another.
    """
    for block in prange(STRIDE):
        for row in range(block, len(starts), STRIDE):
            own = items[starts[row] : starts[row] + lengths[row]]
            begin = np.searchsorted(own, first)
            begins[row], counts[row] = starts[row] + begin, np.searchsorted(own, end) - begin


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True)
def copy_entries(
    begins: NDArray[np.int64],
    counts: NDArray[np.int64],
    items: NDArray[np.int32],
    values: NDArray[np.float32],
    first: int,
    starts: NDArray[np.int64],
    found_items: NDArray[np.int32],
    found_values: NDArray[np.float32],
) -> None:
    """Copy what `find_columns` has found to `starts`, with items counted from `first`."""
    for block in prange(STRIDE):
        for row in range(block, len(starts), STRIDE):
            for n in range(counts[row]):
                found_items[starts[row] + n] = items[begins[row] + n] - first
                found_values[starts[row] + n] = values[begins[row] + n]
