"""Kernels of a sweep of FAST-HALS over blocks of rows; `gpu.nmf.host` has the order of the work.

Blocks have a constant length, and indices are unsigned. Both allow vector instructions.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.base.host.forms import serial_and_parallel
from gpu.nmf.host_blocks import LANES, Floats, dot

PARALLEL_FROM = 16  # blocks; with fewer, waking threads takes longer than updating a column
_ONE, _FOUR, _LANES = np.uintp(1), np.uintp(4), np.uintp(LANES)
_SECOND, _THIRD, _FOURTH = np.uintp(LANES), np.uintp(2 * LANES), np.uintp(3 * LANES)


class Part(NamedTuple):
    """The rows of a factor that one rank owns, and their work space; all arrays have one float dtype.

    n rows, K columns, B blocks, tiles of T columns.

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


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def sweep_blocks(
    blocks: Annotated[Floats, np.float32, 3],
    products: Annotated[Floats, np.float32, 3],
    changes: Annotated[Floats, np.float32, 3],
    gram: Annotated[Floats, np.float32, 2],
    n: int,
    epsilon: Annotated[Any, np.float32],
) -> None:
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


def _update_column(part: Part, gram: Floats, k: int, factor: Any, epsilon: Any, sums: NDArray[np.float64]) -> None:
    """Divide column k − 1 by its norm, update column k, and write the sums of its squares to `sums` (B,)."""
    tile = part.changes.shape[1]
    first = k - k % tile
    for b in prange(len(part.blocks)):
        block, products, changes = part.blocks[b], part.products[b], part.changes[b]
        n = min(LANES, len(part.rows) - b * LANES)
        if k:
            _scale(block[k - 1, :n], changes[(k - 1) % tile], factor, epsilon)
        if k == first:
            _subtract_all(products[first : first + tile], block, gram, first)
        _subtract(products[k], changes[: k - first], gram[k, first:k])
        _update(block[k, :n], products[k], changes[k - first], gram[k, k], epsilon)
        sums[b] = dot(block[k, :n], block[k, :n])


update_column, update_column_parallel = serial_and_parallel(_update_column, error_model="numpy")


@njit(cache=True, nogil=True, error_model="numpy")
def update_columns(part: Part, gram: Floats, k: int, factor: Any, epsilon: Any, sums: NDArray[np.float64]) -> None:
    """`update_column`, on all threads if there are enough blocks."""
    if len(part.blocks) >= PARALLEL_FROM:
        update_column_parallel(part, gram, k, factor, epsilon, sums)
    else:
        update_column(part, gram, k, factor, epsilon, sums)


@njit(cache=True, nogil=True, error_model="numpy")
def scale_last(part: Part, factor: Any, epsilon: Any) -> None:
    """Divide the last column by its norm."""
    for b in range(len(part.blocks)):
        _scale(part.blocks[b, -1, : min(LANES, len(part.rows) - b * LANES)], part.changes[b, 0], factor, epsilon)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_in_order(sums: NDArray[np.float64]) -> Any:
    """Σ of numbers (B,), from the first to the last, so that it has the same bits wherever it is called."""
    total = 0.0
    for one in sums:
        total += one
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_columns(part: Part, gram: Floats, epsilon: Any) -> None:
    """A sweep with norms for the rank that owns all blocks: without a call from Python for every column."""
    sums, factor = np.zeros(len(part.blocks)), np.ones(1, part.blocks.dtype)
    for k in range(part.blocks.shape[1]):
        update_columns(part, gram, k, factor[0], epsilon, sums)
        factor[0] = 1 / np.sqrt(sum_in_order(sums))
    scale_last(part, factor[0], epsilon)


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def scale_columns(
    blocks: Annotated[Floats, np.float32, 3],
    factors: Annotated[Floats, np.float32],
    n: int,
    least: Annotated[Any, np.float32],
) -> None:
    """x_k ← max(least, x_k f_k) for the first `n` rows of `blocks` (B, K, LANES) and `factors` f (K,)."""
    for b in prange(len(blocks)):
        n_lanes = np.uintp(min(LANES, n - b * LANES))
        for k in range(len(factors)):
            column, factor = blocks[b, k], factors[k]
            for v in range(n_lanes):
                column[v] = max(least, column[v] * factor)


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def extrapolate_blocks(
    blocks: Annotated[Floats, np.float32, 3],
    last: Annotated[Floats, np.float32, 3],
    n: int,
    share: Annotated[Any, np.float32],
    epsilon: Annotated[Any, np.float32],
) -> None:
    """Move x to max(ε, x + share (x − last)), and last to x, in n rows of `blocks` and `last` (B, K, LANES)."""
    for b in prange(len(blocks)):
        n_lanes = np.uintp(min(LANES, n - b * LANES))
        for k in range(blocks.shape[1]):
            column, before = blocks[b, k], last[b, k]
            for v in range(n_lanes):
                new = column[v]
                column[v] = max(epsilon, new + share * (new - before[v]))
                before[v] = new
