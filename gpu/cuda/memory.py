"""Measures the memory that a computation takes on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy


def taken_by(function: Callable[[], Any]) -> int:
    """Bytes that CuPy's pool grows by while `function` runs: its peak minus the bytes in use before."""
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    result = function()
    cupy.cuda.get_current_stream().synchronize()
    taken: int = pool.total_bytes() - before
    del result
    return taken
