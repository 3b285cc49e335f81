"""Random tables that trainings start from, and work on long arrays by threads.

Each block of rows has a generator of its own. So threads draw blocks at the same time, and equal rows have equal
numbers on any thread. NumPy does such work without Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

BLOCK = 4096  # rows
N_THREADS = 16  # beyond it memory is the limit; without as many cores some wait


def fill(table: NDArray[np.float32], key: tuple[int, ...], size: float, *, is_normal: bool, first: int = 0) -> None:
    """Fill `table` (rows, columns), which is contiguous, with random numbers.

    Args:
        key: equal keys give equal numbers; at least 0 each.
        size: the deviation of normal numbers around 0, or the end of uniform ones from 0 on.
        first: number of the first row of `table`, if it has some rows of a longer one.
    """
    block, end = first - first % BLOCK, first + len(table)

    def draw(rows: slice) -> None:
        """Draw a block, from its first row."""
        begin, n_rows = block + rows.start, rows.stop - rows.start
        generator = np.random.default_rng((*key, begin // BLOCK))
        drawn, wanted = generator.standard_normal if is_normal else generator.random, max(begin, first)
        to = table[wanted - first : begin + n_rows - first]
        if wanted == begin:  # in place: threads that allocate blocks wait for each other's pages
            drawn(out=to, dtype=np.float32)
        else:
            to[:] = drawn((n_rows, table.shape[1]), dtype=np.float32)[wanted - begin :]
        to *= np.float32(size)

    by_threads(draw, end - block, BLOCK)


def by_threads(work: Callable[[slice], None], n: int, size: int) -> None:
    """Call `work` for pieces of `size` of `n` numbers, or rows; threads work on several pieces at the same time."""
    with ThreadPoolExecutor(N_THREADS, "pieces") as pool:
        list(pool.map(work, (slice(first, min(first + size, n)) for first in range(0, n, size))))
