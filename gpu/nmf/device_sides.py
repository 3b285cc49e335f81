"""The factors of NMF on a CUDA device, their two forms, and copies of them; `gpu.nmf.device` solves them."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.arrays import to_device
from gpu.cuda.kernels import kernel
from gpu.nmf import device_gather as hals_gather
from gpu.nmf.params import EPSILON

Floats = NDArray[Any]  # float32 or float64
EDGE, TRANSPOSING_THREADS = 32, 256  # as in kernels/hals_gather.cu

_extrapolate = cupy.ElementwiseKernel(
    "T share, T epsilon",
    "T x, T last",
    "T now = x, moved = now + share * (now - last); x = moved < epsilon ? epsilon : moved; last = now;",
    "nearfield_extrapolate",
)


class Side(NamedTuple):
    """One factor and its work space; n rows, K columns.

    Attributes:
        columns: (K, n), the factor.
        rows: (at least n, width), the same by rows, for the gathers of sparse products; zeros beyond n and K. It is
            work space while the factor is solved.
        products: (K, n), A or Aᵀ times the other side.
        targets: (T + 1, n), work space of a sweep for data that does not fit into shared memory.
        parts: (K, blocks), work space of a sweep with norms.
    """

    columns: Any
    rows: Any
    products: Any
    targets: Any
    parts: Any


def restore(side: Side, rows: Floats) -> None:
    """Replace the factor by `rows` (n, K)."""
    side.columns[...] = to_device(np.ascontiguousarray(rows.T))
    to_rows(side)


def fetch(side: Side) -> Floats:
    """The factor (n, K) on the host; waits for the device."""
    return np.ascontiguousarray(side.columns.get().T)


def copy_of(side: Side) -> Any:
    """A copy of the factor for `keep`, `put`, `extrapolate` and `fetch_copy`, on the device."""
    return side.columns.copy()


def keep(side: Side, copy: Any) -> None:
    """Write the factor to `copy`."""
    copy[...] = side.columns


def put(copy: Any, side: Side) -> None:
    """Write `copy` to the factor."""
    side.columns[...] = copy
    to_rows(side)


def fetch_copy(side: Side, copy: Any) -> Floats:
    """A `copy` of the factor, (n, K), on the host; waits for the device."""
    del side
    return np.ascontiguousarray(copy.get().T)


def extrapolate(side: Side, last: Any, share: float) -> None:
    """Move the factor X on: X ← max(ε, X + `share` (X − last)), and `last` (a copy) ← the X that was given."""
    dtype = side.columns.dtype.type
    _extrapolate(dtype(share), dtype(EPSILON), side.columns, last)
    to_rows(side)


def to_rows(side: Side) -> None:
    """Copy the factor to its form by rows."""
    transpose(side, side.columns, side.rows, side.columns.shape)


def transpose(side: Side, table: Any, to: Any, shape: tuple[int, int]) -> None:
    """Write the first rows and columns (`shape`) of `table` to `to`, transposed."""
    blocks = -(-shape[0] // EDGE) * -(-shape[1] // EDGE)
    given = table, np.int64(table.shape[1]), to, np.int64(to.shape[1]), *map(np.int64, shape)
    macros = hals_gather.defines(side.rows.dtype, side.rows.shape[1])
    kernel(hals_gather.NAME, "transpose", macros)((blocks,), (TRANSPOSING_THREADS,), given)
