"""ALS on the CPU: one half-iteration, its errors and its memory; `gpu.als.trainer` has the equations.

One thread solves a row from start to end, in a fixed order, so a result does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from gpu.als import host_cg as cg
from gpu.als import host_columns as columns
from gpu.als import host_subspace as subspace
from gpu.als.host_cg import Plan
from gpu.als.objective import ROW_COST, WHOLE, AlsObjective, Extent, is_blocked, width
from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.data.host_solve import BATCH, add_observations
from gpu.data.host_solve import solve as solve_symmetric
from gpu.data.ratings import Rows
from gpu.ranks.exchange import Exchange, in_turn

Table = NDArray[np.float32]
N_RUNS = 64  # partial sums over all rows, for any number of threads
LONG = 1024  # ratings; longer rows are assigned to threads one by one
BYTES_PER_ROW = 64  # bytes of a row of a model without its factors, and of `prepare`


class Side(NamedTuple):
    """Ratings of one side, and the threads of its rows (`gpu.als.host_cg.Plan`)."""

    rows: Rows
    order: NDArray[np.int64]
    bounds: NDArray[np.int64]
    n_rated: int


def base_bytes(users: Extent, items: Extent, problem: AlsObjective) -> int:
    """Bytes that a training takes in addition to its ratings: both tables twice (work and result), one padded."""
    n_rows, n_longer = users.n_rows + items.n_rows, max(users.n_rows, items.n_rows)
    tables = 4 * 2 * n_rows * width(problem) + n_rows * BYTES_PER_ROW
    if is_blocked(problem):
        longest = max(int(side.lengths.max(initial=0)) for side in (users, items))
        return tables + subspace.bytes_needed(n_longer, longest, problem)
    n, grams = padded(problem), 0  # the padded fixed side, sums of VᵀV
    if problem.is_implicit:
        grams = 4 * N_RUNS * n**2 if n <= WHOLE else columns.bytes_needed(n_longer, n + 64, True)
    matrix = 8 * n**2 if problem.solver == "cholesky" else 0  # of a thread
    return tables + 4 * n_longer * n + grams + get_num_threads() * (matrix + cg.batch_bytes())


def side_bytes(lengths: NDArray[np.int64], n_columns: int, problem: AlsObjective) -> int:
    """Bytes for rows with `lengths` ratings: none, as these are in memory already."""
    del lengths, n_columns, problem
    return 0


def prepare(rows: Rows, n_columns: int, problem: AlsObjective, n_rated: int | None = None) -> Side:
    """The side with these `rows`, and their assignment to threads, in shares of about equal work.

    Long rows are assigned one by one, the longest first, so that rows which read a block of the fixed side together use
    much of it. Short rows keep their order, so that memory is read in order.

    Args:
        rows: ratings of the rows to solve.
        n_columns: rows of the fixed side.
        n_rated: number of these that have ratings. Default: all.
    """
    n, lengths = get_num_threads(), rows.lengths
    long_rows, short_rows = np.flatnonzero(lengths >= LONG), np.flatnonzero((lengths > 0) & (lengths < LONG))
    long_rows = long_rows[np.argsort(-lengths[long_rows], kind="stable")]
    row_cost = ROW_COST + (problem.n_factors / 2 if problem.is_implicit else 0)  # VᵀV p costs F/2 times a rating
    work = np.cumsum(lengths[short_rows] + row_cost)
    cuts = np.searchsorted(work, np.arange(1, n) / n * work[-1:].sum())
    shares = [np.concatenate([long_rows[x::n], part]) for x, part in enumerate(np.split(short_rows, cuts))]
    bounds = np.cumsum([0, *(len(share) for share in shares)], dtype=np.int64)
    return Side(rows, np.concatenate(shares), bounds, n_columns if n_rated is None else n_rated)


def load(table: Table, problem: AlsObjective) -> Table:
    """The table in the backend's memory: `table` itself."""
    del problem
    return table


def fetch(table: Table) -> Table:
    """The table on the host: `table` itself."""
    return table


def place(
    exchange: Exchange,
    bounds: NDArray[np.int64],
    problem: AlsObjective,
    *,
    is_shared: bool,
    on_host: bool = False,
    in_waves: bool = False,
) -> tuple[Table, Table | None]:
    """(zeros for the rows of this rank, what the other half reads of all rows).

    Args:
        bounds: int64 (P + 1,), first row of each rank.
        is_shared: whether the other half reads the rows of all ranks. Else there is no second table.
        on_host, in_waves: not used: see the twin.
    """
    del on_host, in_waves
    first, last = bounds[exchange.rank : exchange.rank + 2].tolist()
    if not is_shared:
        return np.zeros((last - first, width(problem)), dtype=np.float32), None
    whole = np.zeros((int(bounds[-1]), width(problem)), dtype=np.float32)
    return whole[first:last], whole


def can_load_rows(problem: AlsObjective) -> bool:
    """Whether float32 rows can stay elsewhere than in the memory of the backend: see the twin."""
    del problem
    return False


def fill(table: Table, own: NDArray[np.float32], problem: AlsObjective) -> None:
    """Replace all rows of a table."""
    del problem
    table[:] = own


def gather(exchange: Exchange, whole: Table, bounds: NDArray[np.int64], *, is_stored: bool = False) -> None:
    """Send the rows of each rank to all; arguments as in `place`, and see the twin."""
    del is_stored
    exchange.gather(whole, bounds)


def pieces(exchange: Exchange, table: Table, bounds: NDArray[np.int64]) -> Iterator[tuple[int, Table]]:
    """The rows of all ranks in turn, as (number of the first row, rows); `table` has those of this rank."""
    yield from in_turn(exchange, table, bounds)


def finish() -> None:
    """Do nothing: all work is done already."""


def solve(side: Side, solved: Table, fixed: Table, problem: AlsObjective) -> None:
    """Minimize over every row of `solved`, in place, against `fixed`; rows without ratings become zero.

    Args:
        side: the ratings of the rows of `solved`; entries are rows of `fixed`.
        solved: float32 (rows, D); its content is the start of conjugate gradients or of the blocks.
        fixed: float32 (columns, D).
    """
    solve_against(side, solved, system_to_solve(fixed, problem), problem)


def system_to_solve(fixed: Table, problem: AlsObjective) -> cg.System | subspace.System:
    """The fixed side as the solver of the problem reads it."""
    return subspace.system_of(fixed, problem) if is_blocked(problem) else system_of(fixed, problem)


def solve_against(side: Side, solved: Table, system: cg.System | subspace.System, problem: AlsObjective) -> None:
    """`solve` against a fixed side that `system_to_solve` has made."""
    solved[side.rows.lengths == 0] = 0
    plan = Plan(side.order, side.bounds, problem.ridges(side.rows.lengths, side.n_rated))
    if isinstance(system, subspace.System):
        subspace.solve_rows(side.rows, plan, system, solved)
    elif problem.solver == "cg":
        cg.solve_rows(side.rows, plan, system, solved)
    else:
        _solve_exactly(side.rows, plan, system, solved)


def system_of(fixed: Table, problem: AlsObjective, *, has_gram: bool = True) -> cg.System:
    """The fixed side as the solvers read it; with VᵀV for implicit problems, unless it is left out."""
    shape = len(fixed), padded(problem)
    buffer = np.zeros(math.prod(shape) + 16, dtype=np.float32)
    first = -buffer.ctypes.data % 64 // 4  # rows start at a cache line, if columns fill whole lines
    z = buffer[first : first + math.prod(shape)].reshape(shape)
    offsets = np.zeros(len(fixed), dtype=np.float32)
    z[:, : width(problem)] = fixed
    if problem.biases:
        offsets[:] = fixed[:, -1]
        z[:, problem.n_factors] = 1
    gram = np.zeros((0, z.shape[1]), dtype=np.float32)
    if problem.is_implicit and has_gram:
        gram = gram_of(z).astype(np.float32)
    slope, level, target_level = (problem.alpha, 0, 1) if problem.is_implicit else (0, 1, -problem.mean)
    return cg.System(
        z,
        offsets,
        gram,
        slope=np.float32(slope),
        level=np.float32(level),
        target_slope=np.float32(problem.alpha if problem.is_implicit else 1),
        target_level=np.float32(target_level),
        n_steps=problem.n_cg_steps,
        tolerance=np.float32(problem.cg_tolerance),
    )


def padded(problem: AlsObjective) -> int:
    """LD, columns of `gpu.als.host_cg.System.z`."""
    return width(problem) + -width(problem) % cg.LANES


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _solve_exactly(rows: Rows, plan: Plan, system: cg.System, solved: Table) -> None:
    """Solve the rows of `solved` that `plan.order` names by Cholesky, in double precision."""
    for share in prange(len(plan.bounds) - 1):
        for x in range(plan.bounds[share], plan.bounds[share + 1]):
            _solve_row(rows, plan.order[x], plan.ridges[plan.order[x]], system, solved)


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_row(rows: Rows, row: int, ridge: float, system: cg.System, solved: Table) -> None:
    n = solved.shape[1]
    matrix, right = np.zeros((n, n)), np.zeros(n)
    if len(system.gram):
        matrix += system.gram[:n, :n]
    for a in range(n):
        matrix[a, a] += ridge
    add_row(rows, row, system, matrix, right)
    solve_symmetric(matrix, right)
    solved[row] = right


@njit(cache=True, nogil=True, error_model="numpy")
def add_row(rows: Rows, row: int, system: cg.System, matrix: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    """Add Σ w z zᵀ over the ratings of a row to the upper triangle of `matrix` (D, D), and Σ y z to `right` (D,)."""
    n, start = len(right), rows.starts[row]
    for first in range(start, start + rows.lengths[row], BATCH):
        last = min(first + BATCH, start + rows.lengths[row])
        z, weights, targets = np.zeros((BATCH, n)), np.zeros(BATCH), np.zeros(BATCH)
        for x in range(last - first):
            column, rating = rows.items[first + x], rows.values[first + x]
            z[x] = system.z[column, :n]
            weights[x] = system.slope * abs(rating) + system.level
            if system.slope * rating + system.level > 0:
                targets[x] = system.target_slope * rating + system.target_level - system.offsets[column]
        add_observations(matrix, right, z, weights, targets)


def gram_of(table: Table) -> NDArray[np.float64]:
    """VᵀV (D, D)."""
    if table.shape[1] > WHOLE:  # sums of `N_RUNS` runs would take more than the table itself
        return columns.square(columns.gram_of(columns.blocks_of(table, table.shape[1])), table.shape[1])
    parts = np.zeros((N_RUNS, table.shape[1], table.shape[1]), dtype=np.float32)
    _add_grams(table, parts)
    upper: NDArray[np.float64] = parts.sum(axis=0, dtype=np.float64)
    whole: NDArray[np.float64] = np.triu(upper) + np.triu(upper, 1).T
    return whole


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _add_grams(table: Annotated[Table, np.float32, 2], parts: Annotated[NDArray[np.float32], 3]) -> None:
    """Upper triangles of the sums over `N_RUNS` runs of rows."""
    n = len(table)
    for run in prange(N_RUNS):
        _add_gram(table, n * run // N_RUNS, n * (run + 1) // N_RUNS, parts[run])


@njit(cache=True, nogil=True, error_model="numpy")
def _add_gram(table: Table, first: int, last: int, gram: NDArray[np.float32]) -> None:
    some, ones = np.zeros((BATCH, table.shape[1]), np.float32), np.ones(BATCH, np.float32)
    right, nothing = np.zeros(table.shape[1], np.float32), np.zeros(BATCH, np.float32)
    for start in range(first, last, BATCH):
        for x in range(BATCH):
            for f in range(table.shape[1]):
                some[x, f] = table[start + x, f] if start + x < last else 0
        add_observations(gram, right, some, ones, nothing)


def errors(
    side: Side, table: Table, fixed: Table, problem: AlsObjective, scale: tuple[float, float], first: int = 0
) -> tuple[float, float]:
    """(Σ (r − clip(r̂))², data loss of the objective without its regularization) over ratings of `side`.

    The data loss is Σ (r − r̂)²; for implicit problems Σ c (p − x·y)² over all pairs of rows, rated or not.

    Args:
        table: parameters of the rows of `side`.
        fixed: consecutive rows of the other side; only ratings of these count.
        scale: estimates r̂ are clipped to it.
        first: number of the first row of `fixed`.
    """
    squares, loss = errors_of(side.rows, table, fixed, problem, scale, first)
    return squares, loss + (of_unrated(table, fixed) if problem.is_implicit else 0.0)


def of_unrated(table: Table, fixed: Table) -> float:
    """Σ r̂² over all pairs of two tables without biases."""
    return float(np.sum(gram_of(table) * gram_of(fixed)))


def errors_of(
    rows: Rows, table: Table, fixed: Table, problem: AlsObjective, scale: tuple[float, float], first: int = 0
) -> tuple[float, float]:
    """As `errors`; the loss of implicit problems is Σ c (p − r̂)² − r̂²: `of_unrated` counts r̂² of rated pairs too."""
    sums = np.zeros((N_RUNS, 2))
    mean, alpha = np.float32(problem.mean), np.float32(problem.alpha)
    low, high = np.float32(scale[0]), np.float32(scale[1])
    _add_errors(rows, table, fixed, first, (problem.is_implicit, problem.biases), (mean, alpha, low, high), sums)
    squares, loss = sums.sum(axis=0)
    return float(squares), float(loss)


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _add_errors(
    rows: Rows,
    table: Annotated[Table, np.float32, 2],
    fixed: Annotated[Table, np.float32, 2],
    first: int,
    kind: tuple[bool, bool],
    constants: tuple[np.float32, np.float32, np.float32, np.float32],
    sums: Annotated[NDArray[np.float64], 2],
) -> None:
    n = len(rows.starts)
    for run in prange(N_RUNS):
        for row in range(n * run // N_RUNS, n * (run + 1) // N_RUNS):
            squares, loss = _row_errors(rows, row, table[row], fixed, first, kind, constants)
            sums[run, 0] += squares
            sums[run, 1] += loss


@njit(cache=True, nogil=True, error_model="numpy")
def _row_errors(
    rows: Rows,
    row: int,
    x: NDArray[np.float32],
    fixed: Table,
    first: int,
    kind: tuple[bool, bool],
    constants: tuple[np.float32, ...],
) -> tuple[float, float]:
    is_implicit, biases = kind
    mean, alpha, low, high = constants
    squares, loss = 0.0, 0.0
    n_factors = len(x) - biases
    for load in range(rows.starts[row], rows.starts[row] + rows.lengths[row]):
        column, rating = rows.items[load] - first, rows.values[load]
        if not 0 <= column < len(fixed):
            continue
        y = fixed[column]
        estimate = mean + _dot(x[:n_factors], y[:n_factors])
        if biases:
            estimate += x[n_factors] + y[n_factors]
        squares += np.float64(rating - min(max(estimate, low), high)) ** 2
        if not is_implicit:
            loss += np.float64(rating - estimate) ** 2
        elif rating != 0:
            off = np.float64(rating > 0) - np.float64(estimate)
            loss += np.float64(1 + alpha * abs(rating)) * off**2 - np.float64(estimate) ** 2
    return squares, loss


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _dot(one: NDArray[np.float32], other: NDArray[np.float32]) -> np.float32:
    """Inner product of two vectors."""
    total = np.float32(0)
    for f in range(np.uintp(len(one))):
        total += one[f] * other[f]
    return total


def penalty(side: Side, table: Table, problem: AlsObjective) -> float:
    """Regularization of the objective: Σ ρ |x|² over the rows of `side`."""
    return penalty_of(side.rows.lengths, side.n_rated, table, problem)


def penalty_of(lengths: NDArray[np.int64], n_rated: int, table: Table, problem: AlsObjective) -> float:
    """Σ ρ |x|² of rows with `lengths` (rows,) ratings; `n_rated` rows of the other side have ratings."""
    squares = np.einsum("rd,rd->r", table, table, dtype=np.float64)
    return float(problem.ridges(lengths, n_rated) @ squares)
