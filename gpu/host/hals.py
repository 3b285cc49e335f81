"""FAST-HALS on the CPU, plain and in tiles (PL-NMF, [002] Alg. 1 and 2); `gpu.training.nmf` has the loop.

W and Hᵀ are both tables of rows with K columns, and one sweep over the columns solves either. A *side* stores its table
twice. Products with A read the rows. The sweep reads blocks of `LANES` rows, transposed inside a block, so that its
loops run over adjacent numbers of one column.

The sweep is [002] Alg. 2 with phases 1 and 3 merged. Just before a tile is updated, one product subtracts the
contributions of all columns: new columns on its left, old ones on its right. Each tile reads the table once, as in the
paper, but only the tile is written, and there is no second copy. The product also subtracts the old columns of the tile
itself. So phase 2 adds only the changes inside the tile. H has no norms, so a block of H goes through all columns while
it stays in the cache. The kernels compute these products themselves, because BLAS would pack the whole table again for
every tile.

Blocks have a constant length, and indices are unsigned. Both allow vector instructions.
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

# ε of [002]: no column can vanish. It also bounds W after the division by the norms. Squares of smaller numbers would
# be denormal in float32, and arithmetic with denormal numbers is a hundred times slower.
EPSILON = 1e-16
PARALLEL_FROM = 16  # blocks; with fewer, waking threads takes longer than updating a column
_ONE, _FOUR, _LANES = np.uintp(1), np.uintp(4), np.uintp(LANES)
_SECOND, _THIRD, _FOURTH = np.uintp(LANES), np.uintp(2 * LANES), np.uintp(3 * LANES)


class Matrix(NamedTuple):
    """A in the backend's memory: dense (V, D), or its entries by row and by column."""

    dense: Floats | None
    by_row: Entries
    by_column: Entries


class Side(NamedTuple):
    """One factor and its work space: n rows, K columns, B blocks, tiles of T columns. All arrays have one float dtype.

    Attributes:
        rows: (n, K), the factor; work space during a sweep.
        blocks: (B, K, LANES), the factor, transposed inside blocks; zeros beyond row n.
        products: (B, K, LANES), A or Aᵀ times the rows of the other side, in the same layout.
        changes: (B, T, LANES), new minus old columns of a tile, from phase 2.
    """

    rows: Floats
    blocks: Floats
    products: Floats
    changes: Floats


def load(matrix: Ratings | Floats, dtype: type[np.floating]) -> Matrix:
    """A for `multiply` and `product`; a dense matrix (V, D) is converted to `dtype`, ratings are not copied."""
    dense = None if isinstance(matrix, Ratings) else np.ascontiguousarray(matrix, dtype=dtype)
    ratings = matrix if isinstance(matrix, Ratings) else _no_ratings()
    return Matrix(dense, *(Entries(rows, runs_of(rows)) for rows in (ratings.by_user, ratings.by_item)))


def load_factors(rows: Floats, tile: int) -> Side:
    """The side that starts from `rows` (n, K), with work space for tiles of `tile` columns."""
    n, k = rows.shape
    n_blocks = -(-n // LANES)
    blocks = np.zeros((n_blocks, k, LANES), dtype=rows.dtype)
    to_blocks(rows, blocks)
    changes = np.zeros((n_blocks, tile, LANES), dtype=rows.dtype)
    return Side(np.array(rows), blocks, np.zeros_like(blocks), changes)


def fetch(side: Side) -> Floats:
    """The factor (n, K) on the host: the rows of the side, not a copy."""
    return side.rows


def finish() -> None:
    """Do nothing: all work is done already."""


def bytes_needed(shape: tuple[int, int], n_sparse: int, n_dense: int, n_factors: int, tile: int, itemsize: int) -> int:
    """Bytes that a training takes in addition to its ratings: two sides, and A if it is dense.

    Args:
        shape: (V, D).
        n_sparse: entries of a sparse A; ignored, because they are not copied.
        n_dense: cells of a dense A, else 0.
        tile: T.
        itemsize: bytes of a number.
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
    """Write A · `fixed` (`by_row`) or Aᵀ · `fixed` to the products of `solved`; its rows are overwritten."""
    if matrix.dense is not None:
        np.matmul(matrix.dense if by_row else matrix.dense.T, fixed.rows, out=solved.rows)
        to_blocks(solved.rows, solved.products)
    else:
        gather(*(matrix.by_row if by_row else matrix.by_column), fixed.rows, solved.products)


def product(matrix: Matrix, by_row: bool, rows: Floats) -> Floats:
    """A · `rows` (`by_row`), (V, k), or Aᵀ · `rows`, (D, k); `rows` may have any sign."""
    if matrix.dense is not None:
        dense: Floats = (matrix.dense if by_row else matrix.dense.T) @ rows
        return dense
    entries = matrix.by_row if by_row else matrix.by_column
    solved = load_factors(np.zeros((len(entries.rows.starts), rows.shape[1]), dtype=rows.dtype), 0)
    gather(*entries, rows, solved.products)
    to_rows(solved.products, solved.rows)
    return solved.rows


def inner(side: Side) -> float:
    """Inner product of the factor and its products, summed in float64."""
    parts = np.zeros(len(side.blocks))
    inner_products(side.blocks, side.products, parts)
    return float(parts.sum())


def sum_of_products(one: Floats, other: Floats) -> float:
    """Inner product of two small matrices, summed in float64."""
    return float(np.einsum("ij,ij->", one, other, dtype=np.float64))


def sweep(side: Side, gram: Floats, *, tile: int, normalize: bool) -> None:
    """Update every column in turn, in place: x_k ← max(ε, x_k d + p_k − Σ_s gram_sk x_s).

    The sum takes new columns left of k, and old ones from k on.

    Args:
        side: with its products, which `normalize` overwrites.
        gram: (K, K), XᵀX of the other side.
        tile: T, as in `load_factors`; 0 for plain FAST-HALS, column by column.
        normalize: true for W: d = gram_kk, and each column is divided by its norm. False for H: d = 1.
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


def _no_ratings() -> Ratings:
    return Ratings.from_coo(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1))


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _subtract_4_from_4(x: Floats, f: Floats, gram: Floats, k: Any, s: Any) -> None:
    """Subtract gram · columns s … s + 3 in `f` (4, LANES) from columns k … k + 3 in `x` (4 · LANES,)."""
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
    """Subtract the columns `f` (S, LANES) times `weights` (S,) from one column `x` (LANES,)."""
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
    """Phases 1 and 3: subtract the contributions of all columns from a tile's columns `x` (n, LANES), `first` on."""
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
    """Phase 2 of one column of a block: write the new values, and −old to `change`."""
    for v in range(np.uintp(len(column))):
        old = column[v]
        column[v] = max(epsilon, old * diagonal + target[v])
        change[v] = -old


@njit(cache=True, nogil=True, error_model="numpy")
def _scale(column: Floats, change: Floats, factor: Any, epsilon: Any) -> None:
    """Scale new values, and add them to `change`, which holds −old."""
    for v in range(np.uintp(len(column))):
        column[v] = max(epsilon, column[v] * factor)
        change[v] += column[v]


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _sweep_blocks(blocks: Floats, products: Floats, changes: Floats, gram: Floats, n: int, epsilon: Any) -> None:
    """A sweep without norms: rows are independent, so each block goes through all columns alone."""
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
    """A sweep with norms: each column needs the norm of the one before, over all blocks."""
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
