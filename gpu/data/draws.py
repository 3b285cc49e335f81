"""Random tables that trainings start from, and work on long arrays by threads.

Each block of rows has a generator of its own. So threads draw blocks at the same time, and equal rows have equal
numbers whoever draws them. NumPy does such work without Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

BLOCK = 4096  # rows
N_THREADS = 16  # beyond it memory is the limit; without as many cores some wait


def fill(table: NDArray[np.float32], key: tuple[int, ...], size: float, *, is_normal: bool) -> None:
    """Fill `table` (rows, columns) with random numbers.

    Args:
        key: equal keys give equal numbers; at least 0 each.
        size: the deviation of normal numbers around 0, or the end of uniform ones from 0 on.
    """

    def draw(rows: slice) -> None:
        """Draw a block."""
        generator, block = np.random.default_rng((*key, rows.start // BLOCK)), table[rows]
        drawn = (generator.standard_normal if is_normal else generator.random)(block.shape, dtype=np.float32)
        np.multiply(drawn, np.float32(size), out=block)

    by_threads(draw, len(table), BLOCK)


def by_threads(work: Callable[[slice], None], n: int, size: int) -> None:
    """Call `work` for pieces of `size` of `n` numbers, or rows; threads work on several pieces at the same time."""
    with ThreadPoolExecutor(N_THREADS, "pieces") as pool:
        list(pool.map(work, (slice(first, min(first + size, n)) for first in range(0, n, size))))
