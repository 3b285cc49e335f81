"""ALS with many factors on the CPU: improves rows in blocks of `BLOCK` factors (iALS++, Rendle et al. 2021).

The residual of each rating, t = y − w (z·x), is updated after every block. The gradient of a block B of factors is g =
Σ t z_B − (VᵀV x)_B − ρ x_B. Conjugate gradients with the A of the block alone, from zero, give the step. So VᵀV is
multiplied by a row once; over all factors, conjugate gradients would do it in every step. Each block also takes the
changes of the blocks before it into account. The bias of a row is a block of its own, the first one.

A half-iteration with s steps costs 4F(s + 1.5) operations for each rating. Implicit problems add 2F² for each row, 2
BLOCK F s for the steps of a row, and 2F² for each row of the fixed side.

One thread computes a row, in a fixed order. So a result depends on neither threads nor batches.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from gpu.als import host_cg as cg
from gpu.als import host_columns as columns
from gpu.als.objective import BLOCK, AlsObjective, n_blocks
from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.data.ratings import Rows

BATCH_ROWS = cg.BATCH_FLOATS // BLOCK
BATCH_RATINGS = 2**18  # ratings of a batch, at most, unless it is a single row
_ZERO, _SHIFT = np.float32(0), np.uintp(4)
_1, _2, _3, _4, _5, _6, _7, _8 = (np.uintp(n) for n in range(1, 9))


class System(NamedTuple):
    """Inputs shared by all rows of a half-iteration: B blocks of W = `BLOCK` columns; zeros fill the last block.

    Attributes:
        z (B, columns, W): factors of the fixed side in blocks, with rows of zeros up to a multiple of 8.
        offsets (columns,): biases of the fixed side, or zeros.
        gram (B, B W, W): columns of VᵀV, block by block; empty, (B, 0, W), for explicit problems.
        slope, level, target_slope, target_level, n_steps, tolerance: as in `gpu.als.host_cg.System`.
        n_factors: F.
        biases: whether rows have biases.
    """

    z: Annotated[NDArray[np.float32], 3]
    offsets: NDArray[np.float32]
    gram: Annotated[NDArray[np.float32], 3]
    slope: np.float32
    level: np.float32
    target_slope: np.float32
    target_level: np.float32
    n_steps: int
    tolerance: np.float32
    n_factors: int
    biases: bool


def bytes_needed(n_longer: int, longest: int, problem: AlsObjective) -> int:
    """Bytes that a half-iteration takes: the fixed side in blocks, VᵀV, and a batch for each thread.

    Args:
        n_longer: rows of the side with more of them.
        longest: ratings of the row with most of them.
    """
    padded = n_blocks(problem) * BLOCK
    batch = cg.batch_bytes() + 4 * (2 * BATCH_ROWS * padded + max(BATCH_RATINGS, longest))
    return columns.bytes_needed(n_longer, padded, problem.is_implicit) + 4 * n_longer + get_num_threads() * batch


def system_of(fixed: NDArray[np.float32], problem: AlsObjective) -> System:
    """The system of a half-iteration against the fixed side, float32 (columns, D)."""
    z = columns.blocks_of(fixed, problem.n_factors)
    gram = columns.gram_of(z) if problem.is_implicit else np.zeros((len(z), 0, BLOCK), dtype=np.float32)
    offsets = fixed[:, -1].copy() if problem.biases else np.zeros(len(fixed), dtype=np.float32)
    return System(
        z,
        offsets,
        gram,
        slope=np.float32(problem.alpha if problem.is_implicit else 0),
        level=np.float32(0 if problem.is_implicit else 1),
        target_slope=np.float32(problem.alpha if problem.is_implicit else 1),
        target_level=np.float32(1 if problem.is_implicit else -problem.mean),
        n_steps=problem.n_cg_steps,
        tolerance=np.float32(problem.cg_tolerance),
        n_factors=problem.n_factors,
        biases=problem.biases,
    )


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def solve_rows(rows: Rows, plan: cg.Plan, system: System, solved: Annotated[NDArray[np.float32], 2]) -> None:
    """Improve the rows of `solved` that `plan.order` names, in place."""
    for share in prange(len(plan.bounds) - 1):
        _solve_share(rows, plan, share, system, solved)


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_share(rows: Rows, plan: cg.Plan, share: int, system: System, solved: NDArray[np.float32]) -> None:
    order, first, end = plan.order, plan.bounds[share], plan.bounds[share + 1]
    while first < end:
        last, n_ratings = first + 1, rows.lengths[order[first]]
        while last < min(first + BATCH_ROWS, end) and n_ratings + rows.lengths[order[last]] <= BATCH_RATINGS:
            n_ratings += rows.lengths[order[last]]
            last += 1
        _solve_batch(rows, order[first:last], n_ratings, plan.ridges, system, solved)
        first = last


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_batch(
    rows: Rows,
    order: NDArray[np.int64],
    n_ratings: int,
    ridges: NDArray[np.float64],
    system: System,
    solved: NDArray[np.float32],
) -> None:
    """Improve all blocks of the G rows of a batch, whose ratings are `n_ratings` together."""
    batch, targets = cg.batch_of(order, BLOCK), np.empty(n_ratings, np.float32)
    x = np.zeros((len(order), len(system.z) * BLOCK), np.float32)
    for g in range(len(order)):
        x[g, : system.n_factors] = solved[order[g], : system.n_factors]
    _set_targets(rows, order, system, targets)
    for block in range(len(system.z)):
        batch.x[:] = x[:, block * BLOCK : (block + 1) * BLOCK]
        _explain(rows, order, system, block, batch.x, targets)
    if system.biases:
        _solve_biases(rows, order, ridges, solved[:, system.n_factors], targets)
    for block in range(len(system.z)):
        own = slice(block * BLOCK, (block + 1) * BLOCK)
        _begin(rows, ridges, system, block, x, targets, batch)
        inner = cg.System(
            system.z[block],
            system.offsets,
            system.gram[block][own],
            system.slope,
            system.level,
            system.target_slope,
            system.target_level,
            system.n_steps,
            system.tolerance,
        )
        for _ in range(system.n_steps):
            cg.step(rows, ridges, inner, batch)
        x[:, own] += batch.x
        _explain(rows, order, system, block, batch.x, targets)
    for g in range(len(order)):
        solved[order[g], : system.n_factors] = x[g, : system.n_factors]


@njit(cache=True, nogil=True, error_model="numpy")
def _set_targets(rows: Rows, order: NDArray[np.int64], system: System, targets: NDArray[np.float32]) -> None:
    """Set `targets` (n_ratings,) to y of every rating of the batch."""
    position = 0
    for row in order:
        for k in range(rows.starts[row], rows.starts[row] + rows.lengths[row]):
            rating = rows.values[k]
            targets[position] = 0  # no rating, or a dislike
            if system.slope * rating + system.level > 0:
                targets[position] = system.target_slope * rating + system.target_level - system.offsets[rows.items[k]]
            position += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_biases(
    rows: Rows,
    order: NDArray[np.int64],
    ridges: NDArray[np.float64],
    biases: NDArray[np.float32],
    targets: NDArray[np.float32],
) -> None:
    """Solve the biases (rows,) of the batch's rows with fixed factors, and update `targets`."""
    position = 0
    for row in order:
        n, total = rows.lengths[row], np.float64(0)
        for k in range(position, position + n):
            targets[k] -= biases[row]
            total += targets[k]
        step = np.float32((total - ridges[row] * biases[row]) / (n + ridges[row]))
        biases[row] += step
        for k in range(position, position + n):
            targets[k] -= step
        position += n


@njit(cache=True, nogil=True, error_model="numpy")
def _begin(
    rows: Rows,
    ridges: NDArray[np.float64],
    system: System,
    block: int,
    x: NDArray[np.float32],
    targets: NDArray[np.float32],
    batch: cg.Batch,
) -> None:
    """Begin a step of zero for this block: the gradient is the residual and the first direction."""
    order, residual, p = batch.rows, batch.residual, batch.p
    batch.x[:], batch.active[:] = 0, True
    position, width = 0, np.uintp(BLOCK)
    for g in range(len(order)):
        start, n = rows.starts[order[g]], rows.lengths[order[g]]
        cg.clear(batch.part)
        _sum_targets(rows.items, start, start + n, targets, position, system.z[block], batch.part)
        position += n
        length, squares = _ZERO, _ZERO
        for f in range(width):
            length += batch.part[f] * batch.part[f]
        _subtract_fixed(system.gram[block], np.float32(ridges[order[g]]), x, g, block * BLOCK, batch.part)
        for f in range(width):
            residual[g, f] = p[g, f] = batch.part[f]
            squares += batch.part[f] * batch.part[f]
        batch.squares[g], batch.goals[g] = squares, system.tolerance * system.tolerance * length


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _sum_targets(
    items: NDArray[np.int32],
    first: int,
    last: int,
    targets: NDArray[np.float32],
    position: int,
    z: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Add t z of the ratings `first` to `last` (excluded) to `out` (W,); their t start at `targets[position]`."""
    n = np.uintp(len(out)) >> _SHIFT << _SHIFT  # so that the compiler sees whole vectors
    t, k, stop = np.uintp(position), np.uintp(first), np.uintp(last)
    while k + _8 <= stop:
        i0, i1, i2, i3 = np.uintp(items[k]), np.uintp(items[k + _1]), np.uintp(items[k + _2]), np.uintp(items[k + _3])
        i4, i5 = np.uintp(items[k + _4]), np.uintp(items[k + _5])
        i6, i7 = np.uintp(items[k + _6]), np.uintp(items[k + _7])
        s0, s1, s2, s3 = targets[t], targets[t + _1], targets[t + _2], targets[t + _3]
        s4, s5, s6, s7 = targets[t + _4], targets[t + _5], targets[t + _6], targets[t + _7]
        for f in range(n):
            half = s0 * z[i0, f] + s1 * z[i1, f] + s2 * z[i2, f] + s3 * z[i3, f]
            out[f] += half + s4 * z[i4, f] + s5 * z[i5, f] + s6 * z[i6, f] + s7 * z[i7, f]
        k += _8
        t += _8
    for rest in range(k, stop):
        row, scale = np.uintp(items[rest]), targets[t]
        for f in range(n):
            out[f] += scale * z[row, f]
        t += _1


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _subtract_fixed(
    gram: NDArray[np.float32], ridge: np.float32, x: NDArray[np.float32], g: int, first: int, out: NDArray[np.float32]
) -> None:
    """Subtract VᵀV x + ρ x, for the block that begins at column `first`, from `out` (W,)."""
    n, row, begin = np.uintp(len(out)) >> _SHIFT << _SHIFT, np.uintp(g), np.uintp(first)
    for f in range(n):
        out[f] -= ridge * x[row, begin + f]
    for k in range(np.uintp(0), np.uintp(len(gram)), _8):
        s0, s1, s2, s3 = x[row, k], x[row, k + _1], x[row, k + _2], x[row, k + _3]
        s4, s5, s6, s7 = x[row, k + _4], x[row, k + _5], x[row, k + _6], x[row, k + _7]
        for f in range(n):
            half = s0 * gram[k, f] + s1 * gram[k + _1, f] + s2 * gram[k + _2, f] + s3 * gram[k + _3, f]
            rest = s4 * gram[k + _4, f] + s5 * gram[k + _5, f] + s6 * gram[k + _6, f] + s7 * gram[k + _7, f]
            out[f] -= half + rest


@njit(cache=True, nogil=True, error_model="numpy")
def _explain(
    rows: Rows,
    order: NDArray[np.int64],
    system: System,
    block: int,
    steps: NDArray[np.float32],
    targets: NDArray[np.float32],
) -> None:
    """Subtract the contributions of `steps` (G, W) in this block from all `targets` of the batch."""
    position = 0
    for g in range(len(order)):
        start, n = rows.starts[order[g]], rows.lengths[order[g]]
        _subtract(
            rows.items,
            rows.values,
            start,
            start + n,
            system.z[block],
            system.slope,
            system.level,
            steps,
            g,
            targets,
            position,
        )
        position += n


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _subtract(
    items: NDArray[np.int32],
    values: NDArray[np.float32],
    first: int,
    last: int,
    z: NDArray[np.float32],
    slope: np.float32,
    level: np.float32,
    p: NDArray[np.float32],
    row: int,
    targets: NDArray[np.float32],
    position: int,
) -> None:
    """Subtract w (z·p) of the ratings `first` to `last` (excluded) from their t, which start at `position`."""
    n, g = np.uintp(p.shape[1]) >> _SHIFT << _SHIFT, np.uintp(row)
    t, k, stop = np.uintp(position), np.uintp(first), np.uintp(last)
    while k + _4 <= stop:
        i0, i1, i2, i3 = np.uintp(items[k]), np.uintp(items[k + _1]), np.uintp(items[k + _2]), np.uintp(items[k + _3])
        s0, s1, s2, s3 = _ZERO, _ZERO, _ZERO, _ZERO
        for f in range(n):
            s0 += z[i0, f] * p[g, f]
            s1 += z[i1, f] * p[g, f]
            s2 += z[i2, f] * p[g, f]
            s3 += z[i3, f] * p[g, f]
        targets[t] -= s0 * (slope * abs(values[k]) + level)
        targets[t + _1] -= s1 * (slope * abs(values[k + _1]) + level)
        targets[t + _2] -= s2 * (slope * abs(values[k + _2]) + level)
        targets[t + _3] -= s3 * (slope * abs(values[k + _3]) + level)
        k += _4
        t += _4
    for rest in range(k, stop):
        i, product = np.uintp(items[rest]), _ZERO
        for f in range(n):
            product += z[i, f] * p[g, f]
        targets[t] -= product * (slope * abs(values[rest]) + level)
        t += _1
