"""Sweeps of FAST-HALS over the columns of a factor on a CUDA device, and their launches; see `gpu.nmf.device`.

Kernels: kernels/hals.cu.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np

from gpu.base.device import shared_memory
from gpu.cuda.kernels import kernel
from gpu.nmf import device_gather as hals_gather
from gpu.nmf.device_sides import Side, to_rows
from gpu.nmf.params import EPSILON

NAME = "hals"
LEAST_NORM = 1e-15  # as on the host
SUM_THREADS, SUM_BLOCKS = 256, 528  # threads and blocks of a sum, for which CuPy would use one block
ROW_THREADS, NORM_THREADS = 128, 1024  # as in kernels/hals.cu
FEW_ROWS = 32  # rows of a block of H, for tables of less than `MANY` rows: more blocks run at once
MANY = 1 << 16  # rows
LEAST_ROWS = 256  # rows of a block of W, at least: more blocks would wait longer for each other
CHUNK_BYTES = 64  # bytes of the targets that a thread sums at a time
STATIC_SHARED = 1024  # bytes, at most; shared memory of a kernel without weights and changes
MARK = 0xFF  # every byte of a sum that is not written yet
POINTERS = tuple((name, "<u8") for name in ("table", "products", "gram", "targets"))
COUNTS = tuple((name, "<i4") for name in ("n_factors", "tile", "rows", "in_shared"))


def sweep(side: Side, gram: Any, *, tile: int, normalize: bool) -> None:
    """Update every column in turn: x_k ← max(ε, x_k d + p_k − Σ_s gram_sk x_s), new values left of k, old from k on.

    Returns before the work is done: see `finish`.

    Args:
        side: holds the products.
        gram: (K, K) of the other side.
        tile: T, as `load_factors` was given it; 0 for plain FAST-HALS, one column after the other.
        normalize: divide each column by its norm, then d = gram_kk (W); else d = 1 (H).
    """
    if tile:
        _sweep_tiles(side, gram, tile, normalize)
    else:
        _sweep_plain(side, gram, normalize)
    to_rows(side)


def sweep_exactly(side: Side, gram: Any, *, tile: int) -> None:
    """Minimize over every column in turn: x_k ← max(ε, x_k + (p_k − Σ_s gram_sk x_s) / gram_kk).

    With the fixed columns scaled to length 1, this is a sweep without norms. Returns before the work is done.

    Args:
        side, gram, tile: as in `sweep`.
    """
    dtype = side.columns.dtype.type
    norms = cupy.maximum(cupy.sqrt(gram.diagonal()), dtype(LEAST_NORM))
    by_column = norms[:, None]
    cupy.maximum(side.columns * by_column, dtype(EPSILON), out=side.columns)
    cupy.divide(side.products, by_column, out=side.products)
    _sweep_tiles(side, cupy.ascontiguousarray(gram / cupy.outer(norms, norms)), tile, normalize=False)
    cupy.maximum(side.columns / by_column, dtype(EPSILON), out=side.columns)
    cupy.multiply(side.products, by_column, out=side.products)
    to_rows(side)


def _sweep_plain(side: Side, gram: Any, normalize: bool) -> None:
    """[002] Alg. 1, lines 6 to 8 or 12 to 16."""
    table, epsilon = side.columns, side.columns.dtype.type(EPSILON)
    for k in range(len(table)):
        column = side.products[k] - gram[k] @ table
        column += table[k] * gram[k, k] if normalize else table[k]
        cupy.maximum(column, epsilon, out=column)
        if normalize:
            column /= cupy.sqrt(sum_on_device(column, column)).astype(table.dtype)
        cupy.maximum(column, epsilon, out=table[k])


def _sweep_tiles(side: Side, gram: Any, tile: int, normalize: bool) -> None:
    """[002] Alg. 2. In W every column waits for the norm of the last one, so all blocks must be resident."""
    (k, n), dtype = side.columns.shape, side.columns.dtype
    if normalize:
        function, threads, parts = "sweep_normalizing", NORM_THREADS, [side.parts]
        blocks, rows = grid_of(n, multiprocessors(cupy.cuda.Device().id))
        side.parts.data.memset_async(MARK, side.parts.nbytes)
    else:
        function, threads, parts, rows = "sweep", ROW_THREADS, [], ROW_THREADS if n >= MANY else FEW_ROWS
        blocks = -(-n // rows)
    macros = defines(dtype, tile, k)
    weights, changes = k * macros["CHUNK"] * dtype.itemsize, (tile + 1) * rows * dtype.itemsize
    in_shared = _fits(weights + changes)
    pointers = (array.data.ptr for array in (side.columns, side.products, gram, side.targets))
    layout = np.dtype([*POINTERS, ("n", "<i8"), ("epsilon", dtype), *COUNTS], align=True)
    given = np.array((*pointers, n, EPSILON, k, tile, rows, in_shared), dtype=layout)
    launch = kernel(NAME, function, macros, _room())
    launch((blocks,), (threads,), (given, *parts), shared_mem=weights + changes * in_shared)


def sum_of_products(one: Any, other: Any) -> float:
    """Σ of two matrices, entry by entry, in float64."""
    return float(sum_on_device(one, other))


def sum_on_device(one: Any, other: Any) -> Any:
    """`sum_of_products` as a float64 array () on the device; does not wait."""
    parts = cupy.empty(min(-(-one.size // SUM_THREADS), SUM_BLOCKS), dtype=cupy.float64)
    kernel(NAME, "sum_of_products", defines(one.dtype, 1, 1))(
        (len(parts),), (SUM_THREADS,), (one, other, np.int64(one.size), parts)
    )
    return parts.sum()


def defines(dtype: np.dtype[Any], tile: int, n_factors: int) -> dict[str, int]:
    """The macros of kernels/hals.cu; the tile and the weights in shared memory limit the columns at a time."""
    piece = hals_gather.PIECE_BYTES // dtype.itemsize
    room = _room() // (n_factors * dtype.itemsize)
    columns = min(CHUNK_BYTES // dtype.itemsize, -(-tile // piece) * piece, room // piece * piece)
    return {"DOUBLE": int(dtype.itemsize == 8), "CHUNK": columns}


def grid_of(n: int, n_multiprocessors: int) -> tuple[int, int]:
    """(blocks, rows of a block): at most one block a multiprocessor, so that all blocks are resident."""
    blocks = min(n_multiprocessors, -(-n // LEAST_ROWS))
    rows = -(-n // (blocks * hals_gather.WARP)) * hals_gather.WARP
    return -(-n // rows), rows


def _fits(n_bytes: int) -> bool:
    return n_bytes <= _room()


def _room() -> int:
    """Bytes of dynamic shared memory that a block can have."""
    return shared_memory() - STATIC_SHARED


@functools.cache
def multiprocessors(device: int) -> int:
    """Number of multiprocessors of a device, by its number."""
    count: int = cupy.cuda.Device(device).attributes["MultiProcessorCount"]
    return count
