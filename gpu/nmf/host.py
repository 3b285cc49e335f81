"""FAST-HALS on the CPU, plain and in tiles (PL-NMF, [002] Alg. 1 and 2); `gpu.nmf.trainer` has the loop.

W and Hᵀ are both tables of rows with K columns, and one sweep over the columns solves either. A *side* stores its table
twice. Products with A read the rows. The sweep reads blocks of `LANES` rows, transposed inside a block, so that its
loops run over adjacent numbers of one column.

The sweep is [002] Alg. 2 with phases 1 and 3 merged. Just before a tile is updated, one product subtracts the
contributions of all columns: new columns on its left, old ones on its right. Each tile reads the table once, as in the
paper, but only the tile is written, and there is no second copy. The product also subtracts the old columns of the tile
itself. So phase 2 adds only the changes inside the tile. H has no norms, so a block of H goes through all columns while
it stays in the cache. The kernels (`gpu.nmf.host_sweeps`) compute these products themselves, because BLAS would pack
the whole table again for every tile.

Several ranks each own whole blocks of both factors. They multiply and sweep these, and then all ranks get all rows.
Sums over rows are sums of blocks (norms, inner products) or of runs of blocks (Gram matrices), added up in one order.
So factors have equal bits for any number of ranks, unless BLAS takes part: with a dense A, or without tiles.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.ratings import Ratings, Rows
from gpu.data.views import part_of
from gpu.nmf.host_blocks import LANES, Entries, Floats, gather, gram_of, inner_products, runs_of, to_blocks, to_rows
from gpu.nmf.host_sweeps import (
    Part,
    extrapolate_blocks,
    scale_columns,
    scale_last,
    sum_in_order,
    sweep_blocks,
    sweep_columns,
    update_columns,
)
from gpu.nmf.params import EPSILON
from gpu.ranks.row_split import RowSplit, undivided

LEAST_NORM = 1e-15  # of a fixed column that a sweep divides by


class Matrix(NamedTuple):
    """A, as far as this rank multiplies it.

    Attributes:
        by_row, by_column: own rows of A and of Aᵀ, sparse or dense.
        splits: of the rows and of the columns of A.
        values: all entries, or all sparse entries, (N,).
    """

    by_row: Entries | Floats
    by_column: Entries | Floats
    splits: tuple[RowSplit, RowSplit]
    values: Floats


class Side(NamedTuple):
    """One factor, with n rows, K columns and B blocks; arrays have one float dtype.

    Attributes:
        rows: (n, K), the factor.
        blocks: (B, K, LANES), the factor, transposed inside blocks; zeros beyond row n.
        own: views of the rows and blocks of this rank, and its work space.
        split: which rank owns which rows.
    """

    rows: Floats
    blocks: Floats
    own: Part
    split: RowSplit

    @property
    def bounds(self) -> NDArray[np.int64]:
        """First block of each rank, int64 (P + 1,)."""
        return -(-self.split.bounds // LANES)


def alignment() -> int:
    """A rank owns rows from a multiple of this on: whole blocks."""
    return LANES


def load(matrix: Ratings | Floats, dtype: type[np.floating], splits: tuple[RowSplit, RowSplit] | None = None) -> Matrix:
    """A for `multiply` and `product`; a dense matrix (V, D) is converted to `dtype`, ratings are not copied.

    Args:
        splits: of rows and columns. Default: one rank has all.
    """
    if isinstance(matrix, Ratings):
        rows, columns = splits or (undivided(matrix.n_users), undivided(matrix.n_items))
        by_row, by_column = _entries(matrix.by_user, rows), _entries(matrix.by_item, columns)
        return Matrix(by_row, by_column, (rows, columns), matrix.by_user.values)
    rows, columns = splits or (undivided(matrix.shape[0]), undivided(matrix.shape[1]))
    dense = np.ascontiguousarray(matrix, dtype=dtype)
    return Matrix(dense[rows.own], dense.T[columns.own], (rows, columns), dense.ravel())


def _entries(rows: Rows, split: RowSplit) -> Entries:
    own, _ = part_of(rows, split.own)
    return Entries(own, runs_of(own))


def load_factors(rows: Floats, tile: int, split: RowSplit | None = None) -> Side:
    """The side that starts from `rows` (n, K), with work space for tiles of `tile` columns.

    Args:
        split: of the rows. Default: one rank has all.
    """
    (n, k), split = rows.shape, split or undivided(len(rows))
    blocks = np.zeros((-(-n // LANES), k, LANES), dtype=rows.dtype)
    table, own = np.empty((n, k), dtype=rows.dtype), split.own
    own_blocks = blocks[own.start // LANES : -(-own.stop // LANES)]
    changes = np.zeros((len(own_blocks), tile, LANES), dtype=rows.dtype)
    side = Side(table, blocks, Part(table[own], own_blocks, np.zeros_like(own_blocks), changes), split)
    restore(side, rows)
    return side


def restore(side: Side, rows: Floats) -> None:
    """Replace the factor by `rows` (n, K)."""
    side.rows[...] = rows
    to_blocks(side.rows, side.blocks)


def fetch(side: Side) -> Floats:
    """The factor (n, K) of all ranks, on the host: the rows of the side, not a copy."""
    return side.rows


def finish() -> None:
    """Do nothing: all work is done already."""


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
    """Bytes that a training takes in addition to its ratings: two sides, their copies, and A if it is dense.

    Args:
        shape: (V, D).
        n_own: rows of both sides that this rank owns.
        n_sparse: entries of a sparse A on this rank; ignored, because they are not copied.
        n_dense: cells of a dense A, else 0.
        tile: T.
        itemsize: bytes of a number.
        n_copied: rows of all copies of factors, see `copy_of`.
    """
    del n_sparse
    n_rows, n_own = sum(-(-n // LANES) * LANES for n in shape), n_own + 2 * LANES
    n_copied += 3 * LANES if n_copied else 0
    return itemsize * ((2 * n_rows + n_copied) * n_factors + n_own * (2 * n_factors + tile) + n_dense)


def gram(side: Side) -> Floats:
    """XᵀX (K, K) of the rows X of all ranks."""
    return gram_of(side.blocks, side.split.exchange)


def lengths(gram: Floats) -> NDArray[np.float64]:
    """The lengths of the columns (K,) whose Gram matrix is `gram`."""
    return np.sqrt(gram.diagonal().astype(np.float64))


def squares(matrix: Matrix) -> float:
    """Σ A² of the whole matrix."""
    return float(np.einsum("i,i->", matrix.values, matrix.values, dtype=np.float64))


def multiply(matrix: Matrix, by_row: bool, fixed: Side, solved: Side) -> None:
    """Write own rows of A · `fixed` (`by_row`) or Aᵀ · `fixed` to the products of `solved`, and overwrite its rows."""
    part, own = matrix.by_row if by_row else matrix.by_column, solved.own
    if isinstance(part, Entries):
        gather(*part, fixed.rows, own.products)
    else:
        np.matmul(part, fixed.rows, out=own.rows)
        to_blocks(own.rows, own.products)


def product(matrix: Matrix, by_row: bool, rows: Floats) -> Floats:
    """A · `rows` (`by_row`), (V, k), or Aᵀ · `rows`, (D, k), of all ranks; `rows` may have any sign."""
    part, split = matrix.by_row if by_row else matrix.by_column, matrix.splits[not by_row]
    products = np.zeros((split.n_rows, rows.shape[1]), dtype=rows.dtype)
    if isinstance(part, Entries):
        solved = load_factors(products[split.own], 0).own
        gather(*part, rows, solved.products)
        to_rows(solved.products, products[split.own])
    else:
        products[split.own] = part @ rows
    split.exchange.gather(products, split.bounds)
    return products


def inner(side: Side) -> float:
    """Inner product of the factor and its products, of all ranks, summed in float64."""
    sums = np.zeros(len(side.blocks))
    inner_products(side.own.blocks, side.own.products, _own_sums(side, sums))
    side.split.exchange.gather(sums, side.bounds)
    return float(sums.sum())


def _own_sums(side: Side, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The part of `sums` (B,) of this rank's blocks."""
    rank = side.split.exchange.rank
    return sums[side.bounds[rank] : side.bounds[rank + 1]]


def sum_of_products(one: Floats, other: Floats) -> float:
    """Inner product of two small matrices, summed in float64."""
    return float(np.einsum("ij,ij->", one, other, dtype=np.float64))


def sweep(side: Side, gram: Floats, *, tile: int, normalize: bool) -> None:
    """Update every column in turn, in place: x_k ← max(ε, x_k d + p_k − Σ_s gram_sk x_s).

    The sum takes new columns left of k, and old ones from k on. Then all ranks have the rows of all.

    Args:
        side: with its products, which `normalize` overwrites.
        gram: (K, K), XᵀX of the other side.
        tile: T, as in `load_factors`; 0 for plain FAST-HALS, column by column.
        normalize: true for W: d = gram_kk, and each column is divided by its norm. False for H: d = 1.
    """
    epsilon, own = side.blocks.dtype.type(EPSILON), side.own
    if not tile:
        _sweep_plain(side, gram, epsilon, normalize)
    elif normalize:
        _sweep_normalizing(side, gram, epsilon)
    else:
        sweep_blocks(own.blocks, own.products, own.changes, gram, len(own.rows), epsilon)
    side.split.exchange.gather(side.blocks, side.bounds)
    to_rows(side.blocks, side.rows)


def sweep_exactly(side: Side, gram: Floats, *, tile: int) -> None:
    """Minimize over every column in turn, in place: x_k ← max(ε, x_k + (p_k − Σ_s gram_sk x_s) / gram_kk).

    With the fixed columns scaled to length 1, this is a sweep without norms. Then all ranks have the rows of all.

    Args:
        side, gram, tile: as in `sweep`.
    """
    dtype, own = side.blocks.dtype.type, side.own
    norms, least = np.maximum(np.sqrt(gram.diagonal()), dtype(LEAST_NORM)), dtype(-np.inf)
    scale_columns(own.blocks, norms, len(own.rows), dtype(EPSILON))
    scale_columns(own.products, 1 / norms, len(own.rows), least)
    sweep(side, gram / np.outer(norms, norms), tile=tile, normalize=False)
    scale_columns(side.blocks, 1 / norms, len(side.rows), dtype(EPSILON))
    scale_columns(own.products, norms, len(own.rows), least)
    to_rows(side.blocks, side.rows)


def copy_of(side: Side) -> Floats:
    """A copy of the factor for `keep`, `put`, `extrapolate` and `fetch_copy`."""
    return side.blocks.copy()


def keep(side: Side, copy: Floats) -> None:
    """Write the factor to `copy`."""
    copy[...] = side.blocks


def put(copy: Floats, side: Side) -> None:
    """Write `copy` to the factor."""
    side.blocks[...] = copy
    to_rows(side.blocks, side.rows)


def fetch_copy(side: Side, copy: Floats) -> Floats:
    """A `copy` of the factor, (n, K), on the host."""
    rows = np.empty_like(side.rows)
    to_rows(copy, rows)
    return rows


def extrapolate(side: Side, last: Floats, share: float) -> None:
    """Move the factor X on: X ← max(ε, X + `share` (X − last)), and `last` (a copy) ← the X that was given."""
    dtype = side.blocks.dtype.type
    extrapolate_blocks(side.blocks, last, len(side.rows), dtype(share), dtype(EPSILON))
    to_rows(side.blocks, side.rows)


def _sweep_plain(side: Side, gram: Floats, epsilon: Any, normalize: bool) -> None:
    """[002] Alg. 1, lines 6 to 8 or 12 to 16."""
    own, rows, n = side.own, side.own.rows, len(side.own.rows)
    to_rows(own.blocks, rows)
    for k in range(rows.shape[1]):
        column = rows[:, k] * (gram[k, k] if normalize else 1)
        column += own.products[:, k].ravel()[:n]
        column -= rows @ gram[k]
        np.maximum(column, epsilon, out=column)
        if normalize:
            (squares,) = side.split.exchange.totals(column @ column)
            column = np.maximum(column / column.dtype.type(np.sqrt(squares)), epsilon)
        rows[:, k] = column
    to_blocks(rows, own.blocks)


def _sweep_normalizing(side: Side, gram: Floats, epsilon: Any) -> None:
    """A sweep with norms: each column needs the norm of the one before, over the blocks of all ranks."""
    if side.split.exchange.size == 1:
        sweep_columns(side.own, gram, epsilon)
        return
    sums, one = np.zeros(len(side.blocks)), side.blocks.dtype.type(1)
    own_sums, bounds, factor = _own_sums(side, sums), side.bounds, one
    for k in range(side.rows.shape[1]):
        update_columns(side.own, gram, k, factor, epsilon, own_sums)
        side.split.exchange.gather(sums, bounds)
        factor = one.dtype.type(1 / np.sqrt(sum_in_order(sums)))
    scale_last(side.own, factor, epsilon)
