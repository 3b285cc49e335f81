"""Scratch memory that is reused from batch to batch, and pinned host memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray


class Scratch:
    """Caches the memory that `make` returns, for the largest sizes so far."""

    def __init__(self, make: Callable[..., Any]) -> None:
        """`make(*sizes)` allocates."""
        self._make, self._made = make, None
        self._sizes: tuple[int, ...] = ()

    def of(self, *sizes: int) -> Any:
        """Memory for at least these sizes: the same as before if it suffices, else new memory with half in reserve."""
        held = self._sizes or (-1,) * len(sizes)
        if any(size > has for size, has in zip(sizes, held, strict=True)):
            self._sizes = tuple(has if size <= has else size + size // 2 for size, has in zip(sizes, held, strict=True))
            self._made = None  # frees the old memory first
            self._made = self._make(*self._sizes)
        return self._made


def pinned(n_bytes: int) -> NDArray[np.uint8]:
    """Pinned host memory, uint8 (n_bytes,), for asynchronous copies to and from the device."""
    memory: NDArray[np.uint8] = np.frombuffer(cupy.cuda.alloc_pinned_memory(n_bytes), np.uint8, n_bytes)
    return memory


def fetched(array: Any, to: NDArray[Any]) -> NDArray[Any]:
    """Copy a whole array to pinned memory of its size; waits for the copy and all earlier work on the device."""
    array.data.copy_to_host_async(to.ctypes.data, array.nbytes)
    cupy.cuda.get_current_stream().synchronize()
    return to
