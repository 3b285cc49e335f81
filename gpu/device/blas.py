"""Matrix products that cuBLAS is asked for directly: CuPy has no batched one, and asks for a thin one too slowly."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.libs import cublas

RUN = 1024  # rows whose Gram matrix is a sum of its own
CONSTANTS = {np.dtype(kind): np.array([0, 1, -1], dtype=kind) for kind in (np.float32, np.float64)}


def gram_of(rows: Any, k: int) -> Any:
    """XᵀX (k, k) of the first k columns of `rows`, whole runs of them; sums of runs are added up in float64."""
    n, width = rows.shape
    parts = cupy.empty((n // RUN, k, k), dtype=rows.dtype)
    multiply_runs = cublas.sgemmStridedBatched if rows.dtype == np.float32 else cublas.dgemmStridedBatched
    one, zero = _address(1, rows.dtype), _address(0, rows.dtype)
    given = rows.data.ptr, width, RUN * width  # cuBLAS sees each run as its transpose: (width, RUN) by columns
    multiply_runs(
        cupy.cuda.device.get_cublas_handle(), cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_T, k, k, RUN,
        one, *given, *given, zero, parts.data.ptr, k, k * k, len(parts),
    )  # fmt: skip
    return parts.sum(axis=0, dtype=np.float64).astype(rows.dtype)


def negative_product(weights: Any, first: int, count: int, table: Any, to: Any) -> None:
    """Write −(rows first … first + count − 1 of `weights` (K, K)) · `table` (K, n) to the first rows of `to`."""
    k, n = table.shape
    dtype = table.dtype
    multiply = cublas.sgemm if dtype == np.float32 else cublas.dgemm
    taken = weights.data.ptr + first * k * dtype.itemsize
    multiply(
        cupy.cuda.device.get_cublas_handle(), cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_N, n, count, k,
        _address(-1, dtype), table.data.ptr, n, taken, k, _address(0, dtype), to.data.ptr, n,
    )  # fmt: skip


def _address(number: int, dtype: np.dtype[Any]) -> int:
    """Where cuBLAS reads 0, 1 or −1."""
    constants = CONSTANTS[dtype]
    return int(constants.ctypes.data) + dtype.itemsize * (number % len(constants))
