"""Passes over all rows of ratings, on the CPU: sums of residuals (`gpu.data.baselines`), entries in columns, orders.

A block owns each `STRIDE`-th row, because rows with most ratings may be neighbors. A row is added up by one thread in
the order of its ratings, in float64: equal inputs give equal bits on any number of threads. The residuals are
r − μ − b of rated rows of the other side.
"""

from __future__ import annotations

from typing import Annotated

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


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True)
def find_extremes(
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    values: NDArray[np.float32],
    lowest: NDArray[np.float32],
    highest: NDArray[np.float32],
) -> None:
    """Set `lowest` and `highest` (rows,) to the smallest and largest value of each row that has some."""
    for block in prange(STRIDE):
        for row in range(block, len(starts), STRIDE):
            if lengths[row]:
                low = high = values[starts[row]]
                for n in range(starts[row] + 1, starts[row] + lengths[row]):
                    low, high = min(low, values[n]), max(high, values[n])
                lowest[row], highest[row] = low, high


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True)
def order_by_group(
    groups: NDArray[np.int32], counts: Annotated[NDArray[np.int64], 2], order: NDArray[np.int64]
) -> None:
    """Set `order` (n,) to the places of `groups` (n,), ascending by group and then by place: a counting sort.

    A block has a stretch of the places, and its row of `counts` (blocks, groups), which are zeros.
    """
    n, n_blocks = len(groups), len(counts)
    for block in prange(n_blocks):
        for at in range(n * block // n_blocks, n * (block + 1) // n_blocks):
            counts[block, groups[at]] += 1
    place = 0
    for group in range(counts.shape[1]):
        for block in range(n_blocks):
            count = counts[block, group]
            counts[block, group] = place
            place += count
    for block in prange(n_blocks):
        for at in range(n * block // n_blocks, n * (block + 1) // n_blocks):
            order[counts[block, groups[at]]] = at
            counts[block, groups[at]] += 1


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True)
def take_words(
    words: Annotated[NDArray[np.int64], 2], order: NDArray[np.int64], taken: Annotated[NDArray[np.int64], 2]
) -> None:
    """Set `taken` (n, w) to rows `order` (n,) of `words`."""
    n = len(order)
    for block in prange(STRIDE):
        for at in range(n * block // STRIDE, n * (block + 1) // STRIDE):
            for word in range(words.shape[1]):
                taken[at, word] = words[order[at], word]
