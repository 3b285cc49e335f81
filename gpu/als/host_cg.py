"""Conjugate gradients ([000] Alg. 1) for many rows at once on the CPU, without forming A.

A p = VᵀV p + ρ p + Σ w (z·p) z over the ratings of the row. A step costs an inner product and a sum of length F for
each rating, and reads every z from memory again. So the rows of a batch do each step together. They read the fixed side
in blocks that stay in the second-level cache: all rows add their ratings in one block before the next block is read.
The sum of a row follows the order of its ratings, `TOGETHER` at a time, so it does not depend on the batch.

A half-iteration with s steps costs 4F(s + 1) + 2F operations for each rating. Implicit problems add 2F²(s + 1) for each
row. Each of the s + 1 passes loads each z twice. With vectors of 8 floats and two loads a cycle, the floor is F/8
cycles for each rating and pass. The horizontal sums of the inner products come on top.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.data.ratings import Rows

LANES = 16  # all arrays here have a multiple of it as columns; the zeros beyond D change no sum
TOGETHER = 8  # ratings that share one pass over a vector
BLOCK_FLOATS = 262_144  # numbers in a block of the fixed side: half of a second-level cache of 2 MiB
BATCH_FLOATS = 65_536  # numbers in each table of a batch, such as `Batch.x`
_ZERO, _SHIFT = np.float32(0), np.uintp(4)
_1, _2, _3, _4, _5, _6, _7, _8 = (np.uintp(n) for n in range(1, 9))


class Plan(NamedTuple):
    """Which thread solves which rows of a side, the same in all half-iterations, and their ridges.

    Attributes:
        order: int64, rows with ratings, share by share; each thread takes a share.
        bounds: int64 (shares + 1,), share s is `order[bounds[s] : bounds[s + 1]]`.
        ridges: float64 (rows,), ρ of every row.
    """

    order: NDArray[np.int64]
    bounds: NDArray[np.int64]
    ridges: NDArray[np.float64]


class System(NamedTuple):
    """Inputs shared by all rows of a half-iteration. LD is D rounded up to a multiple of `LANES`.

    Attributes:
        z (columns, LD): fixed side, [v; 1; 0 …] with biases and [v; 0 …] without.
        offsets (columns,): biases of the fixed side, or zeros.
        gram (LD, LD): VᵀV; empty, (0, LD), for explicit problems.
        slope, level: w = slope · |r| + level.
        target_slope, target_level: y = target_slope · r + target_level − offset. If slope · r + level ≤ 0, r is a
            dislike or no rating, and y = 0.
        n_steps, tolerance: as in `gpu.als.params.AlsParams`.
    """

    z: Annotated[NDArray[np.float32], 2]
    offsets: NDArray[np.float32]
    gram: Annotated[NDArray[np.float32], 2]
    slope: np.float32
    level: np.float32
    target_slope: np.float32
    target_level: np.float32
    n_steps: int
    tolerance: np.float32


class Batch(NamedTuple):
    """G rows that one thread solves together.

    Attributes:
        rows (G,): the rows.
        active (G,): whether the row needs more steps.
        positions (G,): the first rating that the present pass has not read.
        x, p, residual, applied, right (G, LD): [000] Alg. 1; `applied` is A p and `right` is b.
        squares, goals (G,): |residual|², and the value at which the row stops.
        part (LD,): work space, the sum of one row over one block.
    """

    rows: NDArray[np.int64]
    active: NDArray[np.bool_]
    positions: NDArray[np.int64]
    x: NDArray[np.float32]
    p: NDArray[np.float32]
    residual: NDArray[np.float32]
    applied: NDArray[np.float32]
    right: NDArray[np.float32]
    squares: NDArray[np.float32]
    goals: NDArray[np.float32]
    part: NDArray[np.float32]


def batch_bytes() -> int:
    """Approximate bytes of work space for one thread."""
    return 4 * 6 * BATCH_FLOATS


@njit(cache=True, nogil=True, error_model="numpy")
def batch_of(rows: NDArray[np.int64], padded: int) -> Batch:
    """A batch of these rows (G,) with tables (G, `padded`) of zeros; all rows are active."""
    n, f = len(rows), np.float32
    return Batch(
        rows,
        np.ones(n, np.bool_),
        np.zeros(n, np.int64),
        np.zeros((n, padded), f),
        np.zeros((n, padded), f),
        np.zeros((n, padded), f),
        np.zeros((n, padded), f),
        np.zeros((n, padded), f),
        np.zeros(n, f),
        np.zeros(n, f),
        np.zeros(padded, f),
    )


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def solve_rows(rows: Rows, plan: Plan, system: System, solved: Annotated[NDArray[np.float32], 2]) -> None:
    """Solve the rows of `solved` that `plan.order` names, in place."""
    for share in prange(len(plan.bounds) - 1):
        _solve_share(rows, plan, share, system, solved)


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_share(rows: Rows, plan: Plan, share: int, system: System, solved: NDArray[np.float32]) -> None:
    ridges, end = plan.ridges, plan.bounds[share + 1]
    size = BATCH_FLOATS // system.z.shape[1]
    for first in range(plan.bounds[share], end, size):
        batch = batch_of(plan.order[first : min(first + size, end)], system.z.shape[1])
        _copy(solved, batch.rows, batch.x, False)
        _apply(rows, ridges, system, batch, batch.x, True)
        _begin(system.tolerance, batch)
        for _ in range(system.n_steps):
            step(rows, ridges, system, batch)
        _copy(solved, batch.rows, batch.x, True)


@njit(cache=True, nogil=True, error_model="numpy")
def _copy(solved: NDArray[np.float32], rows: NDArray[np.int64], x: NDArray[np.float32], back: bool) -> None:
    """Copy these rows of `solved` to `x` (G, LD), or `back` to `solved`."""
    for g in range(len(rows)):
        for f in range(solved.shape[1]):
            if back:
                solved[rows[g], f] = x[g, f]
            else:
                x[g, f] = solved[rows[g], f]


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _begin(tolerance: np.float32, batch: Batch) -> None:
    """Set the first residual and direction."""
    right, applied, residual, p = batch.right, batch.applied, batch.residual, batch.p
    for g in range(np.uintp(len(right))):
        squares, length = _ZERO, _ZERO
        for f in range(np.uintp(right.shape[1])):
            residual[g, f] = right[g, f] - applied[g, f]
            p[g, f] = residual[g, f]
            squares += residual[g, f] * residual[g, f]
            length += right[g, f] * right[g, f]
        batch.squares[g], batch.goals[g] = squares, tolerance * tolerance * length


@njit(cache=True, nogil=True, error_model="numpy")
def step(rows: Rows, ridges: NDArray[np.float64], system: System, batch: Batch) -> None:
    """Do one step for all rows that have not reached their goal."""
    active, squares, goals = batch.active, batch.squares, batch.goals
    for g in range(len(active)):
        if squares[g] <= goals[g] < np.inf:  # a row that has overflowed goes on to NaN, so that it is detected
            active[g] = False
    _apply(rows, ridges, system, batch, batch.p, False)
    x, p, residual, applied = batch.x, batch.p, batch.residual, batch.applied
    for g in range(np.uintp(len(active))):
        if active[g]:
            squares[g] = _advance(x, p, residual, applied, g, squares[g])


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _advance(
    x: NDArray[np.float32],
    p: NDArray[np.float32],
    residual: NDArray[np.float32],
    applied: NDArray[np.float32],
    g: int,
    squares: np.float32,
) -> np.float32:
    """Move x along p to the minimum, set the next p, and return |residual|²; 0 if p·A p ≤ 0: the row is solved."""
    n = np.uintp(p.shape[1])
    curvature, left = _ZERO, _ZERO
    for f in range(n):
        curvature += p[g, f] * applied[g, f]
    if curvature <= 0:
        return _ZERO
    step = squares / curvature
    for f in range(n):
        x[g, f] += step * p[g, f]
        residual[g, f] -= step * applied[g, f]
        left += residual[g, f] * residual[g, f]
    for f in range(n):
        p[g, f] = residual[g, f] + left / squares * p[g, f]
    return left


@njit(cache=True, nogil=True, error_model="numpy")
def _apply(
    rows: Rows, ridges: NDArray[np.float64], system: System, batch: Batch, p: NDArray[np.float32], is_first: bool
) -> None:
    """Set `applied` to A p for all active rows; if `is_first`, also `right` to b."""
    n_columns, n_block = len(system.z), BLOCK_FLOATS // system.z.shape[1]
    order, active, positions, starts = batch.rows, batch.active, batch.positions, rows.starts
    gram, applied = system.gram, batch.applied
    for g in range(np.uintp(len(order))):
        if active[g]:
            _apply_fixed(gram, np.float32(ridges[order[g]]), p, g, applied)
            positions[g] = starts[order[g]]
    for limit in range(n_block, n_columns + n_block, n_block):
        _visit_block(rows, system, batch, p, limit, is_first)


@njit(cache=True, nogil=True, error_model="numpy")
def _visit_block(rows: Rows, system: System, batch: Batch, p: NDArray[np.float32], limit: int, is_first: bool) -> None:
    """Add w (z·p) z of all remaining ratings of columns below `limit`; if `is_first`, also y z.

    A group of `TOGETHER` ratings that crosses `limit` waits for the next block.
    """
    starts, lengths, items, values = rows.starts, rows.lengths, rows.items, rows.values
    z, offsets, slope, level = system.z, system.offsets, system.slope, system.level
    positions, active, applied = batch.positions, batch.active, batch.applied
    right, order, part = batch.right, batch.rows, batch.part
    least = TOGETHER * z.size // BLOCK_FLOATS  # ratings; rows with fewer are read as a whole, not in blocks
    for g in range(np.uintp(len(positions))):
        position, stop = positions[g], starts[order[g]] + lengths[order[g]]
        end = len(z) if lengths[order[g]] < least else limit
        if not active[g] or position == stop or items[min(position + TOGETHER, stop) - 1] >= end:
            continue
        clear(part)
        positions[g] = _sum_applied(items, values, position, stop, end, z, slope, level, p, g, part)
        _add(part, applied, g)
        if is_first:
            clear(part)
            line = system.target_slope, system.target_level
            _sum_targets(items, values, position, positions[g], z, (slope, level), line, offsets, part)
            _add(part, right, g)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _sum_applied(
    items: NDArray[np.int32],
    values: NDArray[np.float32],
    first: int,
    last: int,
    end: int,
    z: NDArray[np.float32],
    slope: np.float32,
    level: np.float32,
    p: NDArray[np.float32],
    g: int,
    out: NDArray[np.float32],
) -> int:
    """Add w (z·p) z of the ratings from `first` on to `out`, until a group contains a column from `end` on.

    Ratings after the last whole group of `TOGETHER` are added one by one. Returns the first rating not added.
    """
    n_columns = np.uintp(len(out)) >> _SHIFT << _SHIFT  # so that the compiler sees whole vectors
    k, stop = np.uintp(first), np.uintp(last)
    while k + _8 <= stop and items[k + _7] < end:
        i0, i1, i2, i3 = np.uintp(items[k]), np.uintp(items[k + _1]), np.uintp(items[k + _2]), np.uintp(items[k + _3])
        i4, i5 = np.uintp(items[k + _4]), np.uintp(items[k + _5])
        i6, i7 = np.uintp(items[k + _6]), np.uintp(items[k + _7])
        s0, s1, s2, s3, s4, s5, s6, s7 = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
        for f in range(n_columns):
            s0 += z[i0, f] * p[g, f]
            s1 += z[i1, f] * p[g, f]
            s2 += z[i2, f] * p[g, f]
            s3 += z[i3, f] * p[g, f]
            s4 += z[i4, f] * p[g, f]
            s5 += z[i5, f] * p[g, f]
            s6 += z[i6, f] * p[g, f]
            s7 += z[i7, f] * p[g, f]
        s0, s1 = s0 * (slope * abs(values[k]) + level), s1 * (slope * abs(values[k + _1]) + level)
        s2, s3 = s2 * (slope * abs(values[k + _2]) + level), s3 * (slope * abs(values[k + _3]) + level)
        s4, s5 = s4 * (slope * abs(values[k + _4]) + level), s5 * (slope * abs(values[k + _5]) + level)
        s6, s7 = s6 * (slope * abs(values[k + _6]) + level), s7 * (slope * abs(values[k + _7]) + level)
        for f in range(n_columns):
            half = s0 * z[i0, f] + s1 * z[i1, f] + s2 * z[i2, f] + s3 * z[i3, f]
            out[f] += half + s4 * z[i4, f] + s5 * z[i5, f] + s6 * z[i6, f] + s7 * z[i7, f]
        k += _8
    if k + _8 > stop and items[stop - _1] < end:
        for rest in range(k, stop):
            row, product = np.uintp(items[rest]), _ZERO
            for f in range(n_columns):
                product += z[row, f] * p[g, f]
            product *= slope * abs(values[rest]) + level
            for f in range(n_columns):
                out[f] += product * z[row, f]
        k = stop
    return int(k)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _sum_targets(
    items: NDArray[np.int32],
    values: NDArray[np.float32],
    first: int,
    stop: int,
    z: NDArray[np.float32],
    weight: tuple[np.float32, np.float32],
    target: tuple[np.float32, np.float32],
    offsets: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Add y z of the ratings `first` to `stop` (excluded) to `out`; `weight` and `target` are (slope, level)."""
    for k in range(np.uintp(first), np.uintp(stop)):
        if weight[0] * values[k] + weight[1] > 0:
            column = np.uintp(items[k])
            scale = target[0] * values[k] + target[1] - offsets[column]
            for f in range(np.uintp(len(out)) >> _SHIFT << _SHIFT):
                out[f] += scale * z[column, f]


@njit(cache=True, nogil=True, error_model="numpy")
def clear(vector: NDArray[np.float32]) -> None:
    """Set a vector to zero."""
    for f in range(np.uintp(len(vector))):
        vector[f] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def _add(vector: NDArray[np.float32], table: NDArray[np.float32], g: int) -> None:
    for f in range(np.uintp(len(vector))):
        table[np.uintp(g), f] += vector[f]


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _apply_fixed(
    gram: NDArray[np.float32], ridge: np.float32, p: NDArray[np.float32], g: int, out: NDArray[np.float32]
) -> None:
    """Set row `g` of `out` to VᵀV p + ρ p."""
    n = np.uintp(p.shape[1]) >> _SHIFT << _SHIFT
    for f in range(n):
        out[g, f] = ridge * p[g, f]
    for k in range(np.uintp(0), np.uintp(len(gram)), _4):
        a, b, c, d = p[g, k], p[g, k + _1], p[g, k + _2], p[g, k + _3]
        for f in range(n):
            out[g, f] += a * gram[k, f] + b * gram[k + _1, f] + c * gram[k + _2, f] + d * gram[k + _3, f]
