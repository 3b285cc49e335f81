"""Copies arrays to the device, and measures its free memory."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

PIECE_BYTES = 16 * 2**20  # bytes copied at a time, in about two milliseconds


def to_device(array: NDArray[Any]) -> Any:
    """A copy on the device, made in pieces, so that other work there, such as lists, waits for at most one piece.

    `cupy.asarray` would allocate as much pinned memory and keep it.
    """
    copy, source = cupy.empty(array.shape, dtype=array.dtype), np.ascontiguousarray(array)
    if source.nbytes <= PIECE_BYTES:
        copy.set(source)
        return copy
    to, source, n = copy.reshape(-1), source.reshape(-1), PIECE_BYTES // source.itemsize
    for first in range(0, source.size, n):
        to[first : first + n].set(source[first : first + n])
    return copy


def finish() -> None:
    """Wait until the device is idle."""
    cupy.cuda.get_current_stream().synchronize()
