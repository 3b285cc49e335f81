"""FAST-HALS on a CUDA device, plain and locality-optimized (PL-NMF, [002] Alg. 3 to 5); see `gpu.nmf.trainer`.

The twin of `gpu.nmf.host`, with the same sweep: before an update of a tile of T columns, the contributions of all
columns to it are subtracted, which merges phases 1 and 3. One kernel goes through all tiles and computes the norms of
W, where [002] launches cuBLAS and kernels for each column. Sparse products use our own gather, since cuSPARSE does not
promise equal bits. Kernels, layouts and ownership of data: kernels/hals.cu and kernels/hals_gather.cu.

Several ranks each compute the sparse products of their own rows, which take most of the time. Then each computes all
dense products and sweeps all rows. So ranks on equal devices give the bits of one.

An iteration must move and compute, for V × D with N entries, K columns of b bytes in tiles of T:

* Both products, sparse: N entries of 8 bytes, each gathering a row of K b bytes, twice: 2 N (K b + 8) bytes, 4 N K
  FLOP. Dense: 4 V D K FLOP, and A read twice.
* Both sweeps, with n = V + D: the table ⌈K/T⌉ times, products and old columns once, new columns once. In all about
  n b (K²/T + 3 K) bytes and n (2 K² + K T) FLOP. Gram matrices: n K b bytes and 2 n K² FLOP.

On an H100 (rates: docs/kernels.md) with 480,189 × 17,770, 99 M entries, K = 100 in float32, T = 10: gathers of 40 GB
each, 6.5 ms from H and 11.5 ms from W if rows are met at random; sweeps 2.6 GB, 0.9 ms; Gram matrices 0.2 ms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np
from cupy import cublas
from cupy_backends.cuda.libs import cublas as libcublas
from numpy.typing import NDArray

from gpu.base.backend import WORKSPACE
from gpu.cuda.arrays import finish, to_device
from gpu.cuda.kernels import module
from gpu.data.ratings import Ratings, Rows
from gpu.data.views import part_of
from gpu.nmf import device_gather as hals_gather
from gpu.nmf.device_parts import slots_bound
from gpu.nmf.device_sides import (
    Floats,
    Side,
    copy_of,
    extrapolate,
    fetch,
    fetch_copy,
    keep,
    put,
    restore,
    to_rows,
    transpose,
)
from gpu.nmf.device_sweeps import (
    NAME,
    defines,
    grid_of,
    multiprocessors,
    sum_of_products,
    sum_on_device,
    sweep,
    sweep_exactly,
)
from gpu.ranks.row_split import RowSplit, undivided

# Primitives that other modules have; the others are written here.
__all__ = [
    "copy_of",
    "extrapolate",
    "fetch",
    "fetch_copy",
    "finish",
    "keep",
    "put",
    "restore",
    "sum_of_products",
    "sweep",
    "sweep_exactly",
]

RUN = 1024  # rows of a partial Gram matrix


class Matrix(NamedTuple):
    """A on the device.

    Attributes:
        dense: (V, D), or None.
        by_row, by_column: sparse rows of A and of Aᵀ that this rank owns, or None.
        splits: of the rows and of the columns of A.
    """

    dense: Any
    by_row: hals_gather.Entries | None
    by_column: hals_gather.Entries | None
    splits: tuple[RowSplit, RowSplit]


def alignment() -> int:
    """A rank owns rows from a multiple of this on: any rows."""
    return 1


def load(matrix: Ratings | Floats, dtype: type[np.floating], splits: tuple[RowSplit, RowSplit] | None = None) -> Matrix:
    """Copy `matrix` (V, D) to the device: a dense one in `dtype`, the own rows and columns of a sparse one.

    Args:
        splits: of rows and columns. Default: one rank has all.
    """
    if isinstance(matrix, Ratings):
        rows, columns = splits or (undivided(matrix.n_users), undivided(matrix.n_items))
        by_row, by_column = _entries(matrix.by_user, rows), _entries(matrix.by_item, columns)
        return Matrix(None, by_row, by_column, (rows, columns))
    whole = undivided(matrix.shape[0]), undivided(matrix.shape[1])
    return Matrix(to_device(np.asarray(matrix, dtype=dtype)), None, None, whole)


def _entries(rows: Rows, split: RowSplit) -> hals_gather.Entries:
    """Own rows, in parts that depend on the entries of all ranks."""
    return hals_gather.entries_of(part_of(rows, split.own)[0], len(rows.values))


def load_factors(rows: Floats, tile: int, split: RowSplit | None = None) -> Side:
    """A side that starts from `rows` (n, K), for sweeps in tiles of `tile` columns; compiles its kernels.

    Args:
        split: of the rows; ignored, because every rank sweeps all rows.
    """
    del split
    n, k = rows.shape
    by_row = cupy.zeros((-(-n // RUN) * RUN, hals_gather.width_of(k, rows.dtype)), dtype=rows.dtype)
    columns = to_device(np.ascontiguousarray(rows.T))
    products, targets = cupy.zeros_like(columns), cupy.zeros((tile + 1, n), dtype=rows.dtype)
    blocks, _ = grid_of(n, multiprocessors(cupy.cuda.Device().id))
    parts = cupy.empty((k, blocks), dtype=cupy.float64)
    side = Side(columns, by_row, products, targets, parts)
    to_rows(side)
    if tile:
        module(NAME, defines(rows.dtype, tile, k))
    return side


def bytes_needed(
    shape: tuple[int, int],
    n_own: int,
    n_sparse: int,
    n_dense: int,
    n_factors: int,
    tile: int,
    itemsize: int,
    n_copied: int = 0,
) -> int:
    """Peak bytes of device memory that a training takes; arguments as on the host, without `n_own`.

    They count entries (8 bytes, once a side), items (32 a row and a part) and sums of parts, or a dense A. Each side
    has the factor in both forms, products and targets, sums of a sweep, and Gram matrices of runs of rows. Matrix
    products take work space, and so does extrapolation: a copy of the larger factor.
    """
    del n_own
    width = hals_gather.width_of(n_factors, np.dtype(f"f{itemsize}"))
    runs = [-(-n // RUN) for n in shape]
    slots = slots_bound(n_sparse)
    tables = sum(shape) * (2 * n_factors + tile + 1) + sum(runs) * RUN * width
    tables += (n_copied + max(shape)) * n_factors if n_copied else 0
    grams, parts = max(runs) * n_factors**2 + 8 * n_factors**2, slots * width
    plan = 16 * n_sparse + (32 * sum(shape) + 4 * 32 * slots if n_sparse else 0)
    norms = 16 * n_factors * multiprocessors(cupy.cuda.Device().id)
    return itemsize * (tables + n_dense + grams + parts) + plan + norms + WORKSPACE


def gram(side: Side) -> Any:
    """XᵀX (K, K) of the rows X, on the device; sums of runs of rows are added up in float64."""
    n, width = side.rows.shape
    k, dtype = len(side.columns), side.rows.dtype
    parts = cupy.empty((n // RUN, k, k), dtype=dtype)
    multiply_runs = libcublas.sgemmStridedBatched if dtype == np.float32 else libcublas.dgemmStridedBatched
    one, zero = np.ones((), dtype=dtype), np.zeros((), dtype=dtype)
    rows = side.rows.data.ptr, width, RUN * width  # cuBLAS sees each run as its transpose: (width, RUN) by columns
    multiply_runs(
        cupy.cuda.device.get_cublas_handle(), libcublas.CUBLAS_OP_N, libcublas.CUBLAS_OP_T, k, k, RUN,
        one.ctypes.data, *rows, *rows, zero.ctypes.data, parts.data.ptr, k, k * k, len(parts),
    )  # fmt: skip
    return parts.sum(axis=0, dtype=np.float64).astype(dtype)


def lengths(gram: Any) -> NDArray[np.float64]:
    """The lengths of the columns (K,) whose Gram matrix is `gram`, on the host; waits for the device."""
    diagonal: Floats = gram.diagonal().get()
    return np.sqrt(diagonal.astype(np.float64))


def squares(matrix: Matrix) -> float:
    """Σ A² of the whole matrix."""
    values = matrix.dense if matrix.by_row is None else matrix.by_row.values
    (total,) = matrix.splits[0].exchange.totals(float(sum_on_device(values, values)) if values.size else 0.0)
    return total


def multiply(matrix: Matrix, by_row: bool, fixed: Side, solved: Side) -> None:
    """Write A · `fixed` (`by_row`), or Aᵀ · `fixed`, to the products of `solved`, whose rows become work space."""
    entries, split = matrix.by_row if by_row else matrix.by_column, matrix.splits[not by_row]
    if entries is None:
        cublas.gemm("N", "T" if by_row else "N", fixed.columns, matrix.dense, out=solved.products)
    else:
        products = solved.rows[: split.n_rows]
        hals_gather.multiply(entries, fixed.rows, products[split.own])
        split.exchange.gather(products, split.bounds)
        transpose(solved, solved.rows, solved.products, solved.columns.shape[::-1])


def product(matrix: Matrix, by_row: bool, rows: Floats) -> Floats:
    """A · `rows` (`by_row`), or Aᵀ · `rows`, of any sign: (V, k) or (D, k), from the host to the host."""
    entries, split = matrix.by_row if by_row else matrix.by_column, matrix.splits[not by_row]
    k, factors = rows.shape[1], to_device(rows)
    if entries is None:
        dense: Floats = cupy.matmul(matrix.dense if by_row else matrix.dense.T, factors).get()
        return dense
    width = hals_gather.width_of(k, rows.dtype)
    table, to = cupy.zeros((len(rows), width), rows.dtype), cupy.empty((entries.n_rows, width), rows.dtype)
    table[:, :k] = factors
    hals_gather.multiply(entries, table, to)
    whole = np.empty((split.n_rows, k), dtype=rows.dtype)
    whole[split.own] = to.get()[:, :k]
    split.exchange.on_host.gather(whole, split.bounds)
    return whole


def inner(side: Side) -> float:
    """Σ of the factor times its products, entry by entry, in float64."""
    return sum_of_products(side.columns, side.products)
