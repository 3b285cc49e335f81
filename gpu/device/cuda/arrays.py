"""Arrays on their way to the device, and the memory that is left there."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

PIECE_BYTES = 16 * 2**20  # copied at once: some two milliseconds


def to_device(array: NDArray[Any]) -> Any:
    """A copy on the device, made in pieces: whoever else works there, lists say, waits for one of them at most.

    `cupy.asarray` would go through as much pinned memory and keep it.
    """
    found, given = cupy.empty(array.shape, dtype=array.dtype), np.ascontiguousarray(array)
    if given.nbytes <= PIECE_BYTES:
        found.set(given)
        return found
    to, given, n = found.reshape(-1), given.reshape(-1), PIECE_BYTES // given.itemsize
    for first in range(0, given.size, n):
        to[first : first + n].set(given[first : first + n])
    return found


def free_bytes() -> int:
    """Memory of the device that a training can take: what is free, and what CuPy's pool holds without using it."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    return int(free) + int(cupy.get_default_memory_pool().free_bytes())
