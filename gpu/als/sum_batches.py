"""Rows whose sums are in memory together, in mode "reduce"; see `gpu.als.halves`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WAVE_SHARE = 8  # a wave has 1 / WAVE_SHARE of the memory at most: each costs a pass over all sums of a batch


class SumBatch(NamedTuple):
    """Some rows of each rank, which solves them once their sums have been added up.

    Attributes:
        numbers: int64 (n,), the rows, in the order of ranks.
        bounds: int64 (P + 1,), which of them each rank solves, by their place in `numbers`.
        own: the rows of this rank, by their place in its table.
    """

    numbers: NDArray[np.int64]
    bounds: NDArray[np.int64]
    own: slice


def sum_batches(bounds: NDArray[np.int64], q: int, rank: int) -> list[SumBatch]:
    """Rows in `q` batches, with about equally many of each rank in all of them.

    Args:
        bounds: int64 (P + 1,), first row of each rank.
        q: number of batches.
        rank: this rank.
    """
    firsts, sizes, found = bounds[:-1], np.diff(bounds), []
    for k in range(q):
        begins, ends = firsts + sizes * k // q, firsts + sizes * (k + 1) // q
        numbers = np.concatenate([np.arange(*span) for span in zip(begins, ends, strict=True)])
        places = np.concatenate([[0], np.cumsum(ends - begins)])
        found.append(SumBatch(numbers, places, slice(int(begins[rank] - firsts[rank]), int(ends[rank] - firsts[rank]))))
    return found


def fewest(bounds: NDArray[np.int64], most_rows: int) -> int:
    """The smallest q whose batches have at most `most_rows` rows, or a row of each rank."""
    sizes = np.diff(bounds)
    q, largest = max(1, -(-int(bounds[-1]) // most_rows)), max(1, int(sizes.max(initial=1)))
    while q < largest and int((-(-sizes // q)).sum()) > most_rows:
        q += 1
    return min(q, largest)
