"""FAST-HALS on the CPU, plain and locality-optimized (PL-NMF, [002] Alg. 1 and 2); see `gpu.training.nmf` for the loop.

W and Hᵀ are both tables of rows with K columns, and one sweep over the columns solves either. A *side* keeps its table
twice: as rows, which products with A gather, and in blocks of `LANES` rows, transposed inside a block, so that every
loop of a sweep runs over neighboring numbers of one column.

The sweep is [002] Alg. 2 with phases 1 and 3 drawn together: just before a tile is updated, one product subtracts what
all columns take from it, new ones on its left and old ones on its right. The table is read once a tile, as by the two
phases, but only the tile is written, and there is no second copy. The tile's own old columns are subtracted as well, so
phase 2 only adds what has changed inside the tile. H has no norms: a block of it goes through all columns without
leaving the cache. These products run in the kernels and not in BLAS, which packs the whole table anew for every tile.

Blocks are of constant length and indices unsigned: both let loops become vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpu.host.blocks import (
    LANES,
    Entries,
    Floats,
    dot,
    gather,
    gram_of,
    inner_products,
    runs_of,
    to_blocks,
    to_rows,
)
from gpu.host.jit.forms import serial_and_parallel
from gpu.ratings import Ratings

# [002]'s ε: no column can vanish. It bounds W after the norms too: below it, squares in float32 would be denormal, and
# arithmetic with those is a hundred times slower.
EPSILON = 1e-16
PARALLEL_FROM = 16  # blocks; below, threads take longer to wake than a column to be updated
_ONE, _FOUR, _LANES = np.uintp(1), np.uintp(4), np.uintp(LANES)
_SECOND, _THIRD, _FOURTH = np.uintp(LANES), np.uintp(2 * LANES), np.uintp(3 * LANES)


class Matrix(NamedTuple):
    """A where the backend computes: dense (V, D), or its entries by row and by column."""

    dense: Floats | None
    by_row: Entries
    by_column: Entries


class Side(NamedTuple):
    """One factor and its work space; n rows, K columns, B blocks.

    Attributes:
        rows: (n, K), the factor; work space while it is solved.
        blocks: (B, K, LANES), the same transposed inside blocks; zeros beyond n.
        products: (B, K, LANES), A or Aᵀ times the other side's rows, in the same form.
        changes: (B, T, LANES), what phase 2 has changed inside a tile.
    """

    rows: Floats
    blocks: Floats
    products: Floats
    changes: Floats


def load(matrix: Ratings | Floats, dtype: type[np.floating]) -> Matrix:
    """Take `matrix` (V, D) as it is; a dense one in `dtype`."""
    dense = None if isinstance(matrix, Ratings) else np.ascontiguousarray(matrix, dtype=dtype)
    ratings = matrix if isinstance(matrix, Ratings) else _nothing()
    return Matrix(dense, *(Entries(rows, runs_of(rows)) for rows in (ratings.by_user, ratings.by_item)))


def load_factors(rows: Floats, tile: int) -> Side:
    """A side that starts from `rows` (n, K), to be solved in tiles of `tile` columns."""
    n, k = rows.shape
    n_blocks = -(-n // LANES)
    blocks = np.zeros((n_blocks, k, LANES), dtype=rows.dtype)
    to_blocks(rows, blocks)
    changes = np.zeros((n_blocks, tile, LANES), dtype=rows.dtype)
    return Side(np.array(rows), blocks, np.zeros_like(blocks), changes)


def fetch(side: Side) -> Floats:
    """The factor (n, K) on the host: here the rows themselves."""
    return side.rows


def finish() -> None:
    """Wait for what was begun: here all is done already."""


def bytes_needed(shape: tuple[int, int], n_sparse: int, n_dense: int, n_factors: int, tile: int, itemsize: int) -> int:
    """Memory that a training takes beside its ratings: two sides, and A itself where it is dense (`n_dense` cells).

    The entries of a sparse A (`n_sparse`) are taken as they are.
    """
    del n_sparse
    n_rows = sum(-(-n // LANES) * LANES for n in shape)
    return itemsize * (n_rows * (4 * n_factors + tile) + n_dense)


def gram(side: Side) -> Floats:
    """XᵀX (K, K) of the rows X."""
    return gram_of(side.blocks)


def squares(matrix: Matrix) -> float:
    """Σ A²."""
    values = matrix.by_row.rows.values if matrix.dense is None else matrix.dense.ravel()
    return float(np.einsum("i,i->", values, values, dtype=np.float64))


def multiply(matrix: Matrix, by_row: bool, fixed: Side, solved: Side) -> None:
    """Write A · `fixed` (`by_row`), or Aᵀ · `fixed`, to the products of `solved`, whose rows become work space."""
    if matrix.dense is not None:
        np.matmul(matrix.dense if by_row else matrix.dense.T, fixed.rows, out=solved.rows)
        to_blocks(solved.rows, solved.products)
    else:
        gather(*(matrix.by_row if by_row else matrix.by_column), fixed.rows, solved.products)


def product(matrix: Matrix, by_row: bool, rows: Floats) -> Floats:
    """A · `rows` (`by_row`), or Aᵀ · `rows`, of any sign: (V, k) or (D, k)."""
    if matrix.dense is not None:
        found: Floats = (matrix.dense if by_row else matrix.dense.T) @ rows
        return found
    entries = matrix.by_row if by_row else matrix.by_column
    solved = load_factors(np.zeros((len(entries.rows.starts), rows.shape[1]), dtype=rows.dtype), 0)
    gather(*entries, rows, solved.products)
    to_rows(solved.products, solved.rows)
    return solved.rows


def inner(side: Side) -> float:
    """Σ of the factor times its products, entry by entry, in float64."""
    parts = np.zeros(len(side.blocks))
    inner_products(side.blocks, side.products, parts)
    return float(parts.sum())


def sum_of_products(one: Floats, other: Floats) -> float:
    """Σ of two small matrices, entry by entry, in float64."""
    return float(np.einsum("ij,ij->", one, other, dtype=np.float64))


def sweep(side: Side, gram: Floats, *, tile: int, normalize: bool) -> None:
    """Update every column in turn: x_k ← max(ε, x_k d + p_k − Σ_s gram_sk x_s), new values left of k, old from k on.

    Args:
        side: holds the products; with `normalize` they are used up.
        gram: (K, K) of the other side.
        tile: T; 0 for plain FAST-HALS, one column after the other.
        normalize: divide each column by its norm, then d = gram_kk (W); else d = 1 (H).
    """
    epsilon = side.blocks.dtype.type(EPSILON)
    if not tile:
        _sweep_plain(side, gram, epsilon, normalize)
    elif normalize:
        _sweep_normalizing(side, gram, epsilon)
    else:
        _sweep_blocks(side.blocks, side.products, side.changes, gram, len(side.rows), epsilon)
    to_rows(side.blocks, side.rows)


def _sweep_plain(side: Side, gram: Floats, epsilon: Any, normalize: bool) -> None:
    """[002] Alg. 1, lines 6 to 8 or 12 to 16."""
    rows, n = side.rows, len(side.rows)
    to_rows(side.blocks, rows)
    for k in range(rows.shape[1]):
        column = rows[:, k] * (gram[k, k] if normalize else 1)
        column += side.products[:, k].ravel()[:n]
        column -= rows @ gram[k]
        np.maximum(column, epsilon, out=column)
        rows[:, k] = np.maximum(column / np.sqrt(column @ column), epsilon) if normalize else column
    to_blocks(rows, side.blocks)


def _nothing() -> Ratings:
    return Ratings.from_coo(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1))


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _subtract_4_from_4(x: Floats, f: Floats, gram: Floats, k: Any, s: Any) -> None:
    """Columns k … k + 3 in `x` (4 · LANES,) less gram · columns s … s + 3 in `f` (4, LANES)."""
    f0, f1, f2, f3 = f[0], f[1], f[2], f[3]
    s1, s2, s3 = s + _ONE, s + np.uintp(2), s + np.uintp(3)
    one, two, three, four = gram[k], gram[k + _ONE], gram[k + np.uintp(2)], gram[k + np.uintp(3)]
    a0, a1, a2, a3 = one[s], one[s1], one[s2], one[s3]
    b0, b1, b2, b3 = two[s], two[s1], two[s2], two[s3]
    c0, c1, c2, c3 = three[s], three[s1], three[s2], three[s3]
    d0, d1, d2, d3 = four[s], four[s1], four[s2], four[s3]
    for v in range(_LANES):
        x[v] = x[v] - a0 * f0[v] - a1 * f1[v] - a2 * f2[v] - a3 * f3[v]
        x[v + _SECOND] = x[v + _SECOND] - b0 * f0[v] - b1 * f1[v] - b2 * f2[v] - b3 * f3[v]
        x[v + _THIRD] = x[v + _THIRD] - c0 * f0[v] - c1 * f1[v] - c2 * f2[v] - c3 * f3[v]
        x[v + _FOURTH] = x[v + _FOURTH] - d0 * f0[v] - d1 * f1[v] - d2 * f2[v] - d3 * f3[v]


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _subtract(x: Floats, f: Floats, weights: Floats) -> None:
    """One column `x` (LANES,) less the columns `f` (S, LANES) times `weights` (S,)."""
    n, s = np.uintp(len(weights)), np.uintp(0)
    while s + _FOUR <= n:
        f0, f1, f2, f3 = f[s], f[s + _ONE], f[s + np.uintp(2)], f[s + np.uintp(3)]
        g0, g1, g2, g3 = weights[s], weights[s + _ONE], weights[s + np.uintp(2)], weights[s + np.uintp(3)]
        for v in range(_LANES):
            x[v] = x[v] - g0 * f0[v] - g1 * f1[v] - g2 * f2[v] - g3 * f3[v]
        s += _FOUR
    while s < n:
        f0, g0 = f[s], weights[s]
        for v in range(_LANES):
            x[v] -= g0 * f0[v]
        s += _ONE


@njit(cache=True, nogil=True, error_model="numpy")
def _subtract_all(x: Floats, block: Floats, gram: Floats, first: int) -> None:
    """Phases 1 and 3: the tile's columns `x` (n, LANES), from column `first` on, less all columns' share in them."""
    flat, n_by_4, k_by_4 = x.ravel(), len(x) // 4 * 4, len(block) // 4 * 4
    for s in range(0, k_by_4, 4):
        f = block[s : s + 4]
        for t in range(0, n_by_4, 4):
            _subtract_4_from_4(flat[t * LANES : (t + 4) * LANES], f, gram, np.uintp(first + t), np.uintp(s))
        for t in range(n_by_4, len(x)):
            _subtract(x[t], f, gram[first + t, s : s + 4])
    if k_by_4 < len(block):
        for t in range(len(x)):
            _subtract(x[t], block[k_by_4:], gram[first + t, k_by_4:])


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _update(column: Floats, target: Floats, change: Floats, diagonal: Any, epsilon: Any) -> None:
    """Phase 2 of one column of a block: the new values, and −old in `change`."""
    for v in range(np.uintp(len(column))):
        old = column[v]
        column[v] = max(epsilon, old * diagonal + target[v])
        change[v] = -old


@njit(cache=True, nogil=True, error_model="numpy")
def _scale(column: Floats, change: Floats, factor: Any, epsilon: Any) -> None:
    """Scale new values, and complete the change by them."""
    for v in range(np.uintp(len(column))):
        column[v] = max(epsilon, column[v] * factor)
        change[v] += column[v]


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _sweep_blocks(blocks: Floats, products: Floats, changes: Floats, gram: Floats, n: int, epsilon: Any) -> None:
    """A sweep without norms: no row waits for another, so each block is swept at once."""
    for b in prange(len(blocks)):
        _sweep_block(blocks[b], products[b], changes[b], gram, min(LANES, n - b * LANES), epsilon)


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep_block(block: Floats, products: Floats, change: Floats, gram: Floats, n: int, epsilon: Any) -> None:
    tile, one = len(change), block.dtype.type(1)
    targets = np.empty((tile, LANES), block.dtype)
    for first in range(0, len(block), tile):
        last = min(first + tile, len(block))
        x = targets[: last - first]
        x[:] = products[first:last]
        _subtract_all(x, block, gram, first)
        for t in range(last - first):
            k = first + t
            _subtract(x[t], change[:t], gram[k, first:k])
            _update(block[k, :n], x[t], change[t], one, epsilon)
            _scale(block[k, :n], change[t], one, epsilon)


def _update_column(side: Side, gram: Floats, k: int, factor: Any, epsilon: Any, parts: NDArray[np.float64]) -> None:
    """Divide column k − 1 by its norm, update column k, and write the sums of its squares to `parts` (B,)."""
    tile = side.changes.shape[1]
    first = k - k % tile
    for b in prange(len(side.blocks)):
        block, products, changes = side.blocks[b], side.products[b], side.changes[b]
        n = min(LANES, len(side.rows) - b * LANES)
        if k:
            _scale(block[k - 1, :n], changes[(k - 1) % tile], factor, epsilon)
        if k == first:
            _subtract_all(products[first : first + tile], block, gram, first)
        _subtract(products[k], changes[: k - first], gram[k, first:k])
        _update(block[k, :n], products[k], changes[k - first], gram[k, k], epsilon)
        parts[b] = dot(block[k, :n], block[k, :n])


update_column, update_column_parallel = serial_and_parallel(_update_column, error_model="numpy")


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep_normalizing(side: Side, gram: Floats, epsilon: Any) -> None:
    """A sweep with norms: every column waits for the norm of the one before."""
    blocks, n_rows = side.blocks, len(side.rows)
    parts, factor = np.zeros(len(blocks)), np.ones(1, blocks.dtype)
    for k in range(blocks.shape[1]):
        if len(blocks) >= PARALLEL_FROM:
            update_column_parallel(side, gram, k, factor[0], epsilon, parts)
        else:
            update_column(side, gram, k, factor[0], epsilon, parts)
        factor[0] = 1 / np.sqrt(parts.sum())
    for b in range(len(blocks)):
        _scale(blocks[b, -1, : min(LANES, n_rows - b * LANES)], side.changes[b, 0], factor[0], epsilon)
