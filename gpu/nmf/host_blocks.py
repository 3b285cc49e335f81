"""Tables of factors in blocks of transposed rows, and products with sparse rows in that layout.

A block holds `LANES` rows, column by column, so that loops over one column run over adjacent numbers. Zeros fill the
last block. One thread computes a row, and sums over rows add the sums of blocks in order. So results do not depend on
the number of threads. Indices are unsigned, because signed ones prevent vector instructions.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.data.ratings import Rows
from gpu.ranks.exchange import ALONE, Exchange

Floats = NDArray[Any]  # float32 or float64
LANES = 256  # rows of a block; with 240 columns in float32 it takes 240 KiB, a part of the second-level cache
GROUP = 16  # rows whose products are computed together; their numbers in a column fill a cache line
N_RUNS = 64  # runs of groups; constant, so that results do not depend on the number of threads
N_GRAMS = 16  # runs of blocks, each with its own partial sum of XᵀX
_ONE, _FOUR, _LANES = np.uintp(1), np.uintp(4), np.uintp(LANES)


class Entries(NamedTuple):
    """Sparse rows, and `runs`, int64 (N_RUNS + 1,): bounds of runs of groups with about equal numbers of entries."""

    rows: Rows
    runs: NDArray[np.int64]


def runs_of(rows: Rows) -> NDArray[np.int64]:
    """Bounds, int64 (N_RUNS + 1,), of runs of groups with about equal work: entries, and a fixed cost of each row."""
    if not len(rows.starts):
        return np.zeros(N_RUNS + 1, dtype=np.int64)
    n_groups = -(-len(rows.starts) // GROUP)
    ends = np.cumsum(np.add.reduceat(rows.lengths + GROUP, np.arange(0, len(rows.starts), GROUP)))
    inside = np.searchsorted(ends, np.arange(1, N_RUNS) * (ends[-1] / N_RUNS))
    return np.concatenate([[0], inside, [n_groups]]).astype(np.int64)


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def to_blocks(rows: Annotated[Floats, np.float32, 2], blocks: Annotated[Floats, np.float32, 3]) -> None:
    """Write `rows` (n, K) to `blocks` (B, K, LANES), but not to lanes beyond n."""
    for b in prange(len(blocks)):
        first = np.uintp(b * LANES)
        for v in range(min(_LANES, np.uintp(len(rows)) - first)):
            for k in range(np.uintp(rows.shape[1])):
                blocks[b, k, v] = rows[first + v, k]


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def to_rows(blocks: Annotated[Floats, np.float32, 3], rows: Annotated[Floats, np.float32, 2]) -> None:
    """Write `blocks` (B, K, LANES) to `rows` (n, K)."""
    for b in prange(len(blocks)):
        first = np.uintp(b * LANES)
        for v in range(min(_LANES, np.uintp(len(rows)) - first)):
            for k in range(np.uintp(rows.shape[1])):
                rows[first + v, k] = blocks[b, k, v]


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def gather(rows: Rows, runs: NDArray[np.int64], table: Floats, products: Floats) -> None:
    """Write the product of sparse rows with `table` (columns, K) to `products` (B, K, LANES), in whole cache lines."""
    for run in prange(N_RUNS):
        totals = np.empty((GROUP, table.shape[1]), table.dtype)
        for group in range(runs[run], runs[run + 1]):
            first = group * GROUP
            last = min(first + GROUP, len(rows.starts))
            totals[:] = 0
            for row in range(first, last):
                _add_entries(rows, row, table, totals[row - first])
            block, lane = first // LANES, np.uintp(first % LANES)
            for k in range(np.uintp(table.shape[1])):
                for v in range(np.uintp(last - first)):
                    products[block, k, lane + v] = totals[v, k]


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _add_entries(rows: Rows, row: int, table: Floats, total: Floats) -> None:
    """Add Σ value · row of `table` over the entries of one sparse row to `total` (K,); four entries at a time."""
    n, p = np.uintp(len(total)), np.uintp(rows.starts[row])
    end = p + np.uintp(rows.lengths[row])
    while p + _FOUR <= end:
        q, r, s = p + _ONE, p + np.uintp(2), p + np.uintp(3)
        a, b, c, d = rows.values[p], rows.values[q], rows.values[r], rows.values[s]
        x, y = table[np.uintp(rows.items[p])], table[np.uintp(rows.items[q])]
        z, w = table[np.uintp(rows.items[r])], table[np.uintp(rows.items[s])]
        for k in range(n):
            total[k] = total[k] + a * x[k] + b * y[k] + c * z[k] + d * w[k]
        p += _FOUR
    while p < end:
        a, x = rows.values[p], table[np.uintp(rows.items[p])]
        for k in range(n):
            total[k] += a * x[k]
        p += _ONE


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def inner_products(
    blocks: Annotated[Floats, np.float32, 3], others: Annotated[Floats, np.float32, 3], parts: NDArray[np.float64]
) -> None:
    """Write the inner product of each block with the block of `others` at the same index to `parts` (B,)."""
    for b in prange(len(blocks)):
        parts[b] = dot(blocks[b].ravel(), others[b].ravel())


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def dot(one: Floats, other: Floats) -> float:
    """Inner product of two vectors, summed in float64."""
    total = 0.0
    for position in range(np.uintp(len(one))):
        total += np.float64(one[position]) * np.float64(other[position])
    return total


def gram_of(blocks: Floats, exchange: Exchange = ALONE) -> Floats:
    """XᵀX (K, K) of a table in blocks (B, K, LANES); not by BLAS, whose threads would wait for each other.

    Args:
        exchange: ranks that divide the runs among them; each has the whole table. The bits are those of one rank.
    """
    n_columns = blocks.shape[1]
    n_fours = -(-n_columns // 4)
    parts = np.zeros((N_GRAMS, n_fours, n_fours, 16), dtype=blocks.dtype)
    bounds = N_GRAMS * np.arange(exchange.size + 1) // exchange.size
    _add_grams(blocks, parts, *bounds[exchange.rank : exchange.rank + 2])
    exchange.gather(parts, bounds)
    fours = parts.sum(axis=0, dtype=np.float64).reshape(n_fours, n_fours, 4, 4)
    upper = fours.transpose(0, 2, 1, 3).reshape(4 * n_fours, -1)[:n_columns, :n_columns]
    whole: Floats = (np.triu(upper) + np.triu(upper, 1).T).astype(blocks.dtype)
    return whole


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _add_grams(
    blocks: Annotated[Floats, np.float32, 3], parts: Annotated[Floats, np.float32, 4], first: int, last: int
) -> None:
    """Write the upper triangle of XᵀX of runs `first` to `last` (excluded) to `parts`, in squares of 4 × 4.

    The last column fills up squares.

    Args:
        parts: (N_GRAMS, Q, Q, 16), Q = K / 4 rounded up.
    """
    end = blocks.shape[1] - 1
    for run in prange(first, last):
        for b in range(len(blocks) * run // N_GRAMS, len(blocks) * (run + 1) // N_GRAMS):
            f = blocks[b]
            for i in range(parts.shape[1]):
                k, m, n = min(4 * i + 1, end), min(4 * i + 2, end), min(4 * i + 3, end)
                for j in range(i, parts.shape[1]):
                    s, t, u = min(4 * j + 1, end), min(4 * j + 2, end), min(4 * j + 3, end)
                    _add_4_by_4(f[4 * i], f[k], f[m], f[n], f[4 * j], f[s], f[t], f[u], parts[run, i, j])


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _add_4_by_4(
    a: Floats, b: Floats, c: Floats, d: Floats, x: Floats, y: Floats, z: Floats, w: Floats, sums: Floats
) -> None:
    """Add the inner products of a, b, c, d with x, y, z, w to `sums` (16,), in one pass."""
    ax = ay = az = aw = bx = by = bz = bw = cx = cy = cz = cw = dx = dy = dz = dw = sums.dtype.type(0)
    for v in range(_LANES):
        av, bv, cv, dv, xv, yv, zv, wv = a[v], b[v], c[v], d[v], x[v], y[v], z[v], w[v]
        ax += av * xv
        ay += av * yv
        az += av * zv
        aw += av * wv
        bx += bv * xv
        by += bv * yv
        bz += bv * zv
        bw += bv * wv
        cx += cv * xv
        cy += cv * yv
        cz += cv * zv
        cw += cv * wv
        dx += dv * xv
        dy += dv * yv
        dz += dv * zv
        dw += dv * wv
    products = (ax, ay, az, aw, bx, by, bz, bw, cx, cy, cz, cw, dx, dy, dz, dw)
    for position in range(16):
        sums[position] += products[position]
