"""ALS on a CUDA device: loads both sides, chooses kernels and computes errors; `gpu.als.trainer` has the equations.

There are three sets of kernels. Two keep A in registers, on tensor cores (float16, conjugate gradients, compute
capability 8.0): `gpu.als.device_fused`, and `gpu.als.device_wide` for many factors. The third,
`gpu.als.device_plain`, does everything else in float32, with A in memory. More than `WHOLE` factors are solved in
blocks (`gpu.als.device_subspace`), by the first and the last set. All give equal bits for equal inputs on equal
devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.als import device_fused as fused
from gpu.als import device_losses as losses
from gpu.als import device_plain as plain
from gpu.als import device_plan as plan
from gpu.als import device_sides as arrays
from gpu.als import device_subspace as subspace
from gpu.als import device_wide as wide
from gpu.als.device_sides import PANEL, Path, Side, Table, TensorPath
from gpu.als.device_tiling import tiling
from gpu.als.objective import WHOLE, AlsObjective, Extent, block_problem, is_blocked, width
from gpu.base.backend import WORKSPACE
from gpu.base.device import TENSOR_CORES, compute_capability
from gpu.base.errors import InvalidParams
from gpu.cuda.arrays import PIECE_BYTES as COPIED_BYTES
from gpu.cuda.arrays import finish, to_device
from gpu.data.ratings import Rows
from gpu.ranks.device_exchange import shared_zeros
from gpu.ranks.exchange import PIECE_BYTES, Exchange, in_turn

__all__ = ["finish"]  # a primitive of every family; the others are written here


def is_fused(problem: AlsObjective) -> bool:
    """Whether tensor cores solve the problem."""
    return problem.precision == "float16" and problem.solver == "cg" and compute_capability() >= TENSOR_CORES


def path_of(problem: AlsObjective) -> Path:
    """The kernels that solve the problem, or one block of it.

    Raises:
        InvalidParams: an exact solution of more than `WHOLE` factors.
    """
    if problem.n_factors > WHOLE and not is_blocked(problem):
        raise InvalidParams(f"Invalid solver: expected cg on a device beyond {WHOLE} factors, got cholesky; use host")
    return tensor_path_of(problem) if is_fused(problem) else plain


def tensor_path_of(problem: AlsObjective) -> TensorPath:
    """`path_of` a problem that tensor cores solve."""
    if is_blocked(problem) or not wide.fits(problem):
        return fused
    return wide


def _solved_at_once(problem: AlsObjective) -> AlsObjective:
    """The problem that one launch solves: `problem`, or one block of it."""
    return block_problem(problem) if is_blocked(problem) else problem


def base_bytes(users: Extent, items: Extent, problem: AlsObjective, *, on_host: bool = False) -> int:
    """Peak bytes of device memory that a training takes beside `side_bytes`: tables and work space.

    Args:
        on_host: whether float32 rows stay on the host.
    """
    n_longer = max(users.n_rows, items.n_rows)
    found = sum(table_bytes(side, problem, on_host=on_host) for side in (users, items)) + work_bytes(problem)
    if is_blocked(problem):
        return found + subspace.bytes_needed(int(users.lengths.sum()), n_longer, problem)
    is_alone = all(len(side.lengths) == side.n_rows for side in (users, items))
    n_passing = 2 * on_host + 2 * (not is_alone)  # pieces of rows for errors
    return found + n_passing * min(PIECE_BYTES, 4 * arrays.stride(problem) * n_longer)


def table_bytes(side: Extent, problem: AlsObjective, *, on_host: bool = False) -> int:
    """Bytes of a side's parameters: in float32 of the rows that a rank solves, and what the other half reads."""
    n_read, n_exact = side.n_rows if side.is_shared else len(side.lengths), 0 if on_host else len(side.lengths)
    halves = 0
    if is_fused(problem):
        halves = 0 if side.in_waves else 2 * arrays.n_half_columns(problem)
    else:
        n_exact = n_read
    return n_exact * (4 * arrays.stride(problem) + 4 * problem.biases) + n_read * halves


def work_bytes(problem: AlsObjective) -> int:
    """Bytes of work space: panels of float64, matrix products."""
    return 2 * 8 * PANEL * arrays.stride(problem) * problem.is_implicit + WORKSPACE


def side_bytes(lengths: NDArray[np.int64], n_columns: int, problem: AlsObjective) -> int:
    """Peak bytes of device memory for rows with `lengths` ratings; the fixed side has `n_columns` rows.

    They count ratings (8 bytes), work items and split rows (32), sums of their errors (16), ρ and positions of rows
    (24), rows without ratings (8), and sums of parts of rows, or of a batch of rows.
    """
    n_rated, inner, path = int(np.count_nonzero(lengths)), _solved_at_once(problem), path_of(problem)
    if is_fused(problem):
        parts = plan.parts_of(lengths, n_ranges(n_columns, problem))
        n_slots, n_split = int(parts.sum()), int(np.count_nonzero(parts))
        n_items, held = n_slots + n_rated - n_split, min(n_slots, max(max_slots(problem), int(parts.max(initial=0))))
    else:
        n_split, n_items = n_rated, int(plan.n_parts_of(lengths).sum())
        held = min(n_items, tiling(inner).max_slots)
    sums: int = held * path.slot_bytes(inner)
    return 8 * int(lengths.sum()) + (32 + 16) * n_items + 32 * n_split + (24 + 8) * len(lengths) + sums


def prepare(rows: Rows, n_columns: int, problem: AlsObjective, n_rated: int | None = None) -> Side:
    """Copy the ratings of one side to the device, with the plan of its half-iterations.

    Args:
        rows: ratings of the rows to solve.
        n_columns: rows of the fixed side.
        n_rated: number of these that have ratings. Default: all.
    """
    n_rated = n_columns if n_rated is None else n_rated
    work = planned(rows, n_columns, problem)
    return arrays.side_of(rows, *work[:2], problem.ridges(rows.lengths, n_rated), n_rated, work.slots_bytes)


class Work(NamedTuple):
    """How rows are solved: `Side.plan`, `Side.batches` and `Side.slots_bytes`."""

    plan: plan.Plan
    batches: list[plan.Batch]
    slots_bytes: int


def planned(rows: Rows, n_columns: int, problem: AlsObjective) -> Work:
    """How `rows` are solved; arguments as in `prepare`."""
    inner, path = _solved_at_once(problem), path_of(problem)
    if is_fused(problem):
        # Implicit problems have no short rows: each step would have to apply VᵀV.
        short = 0 if problem.is_implicit else plan.short_of(arrays.n_half_columns(inner))
        ranges, weights = n_ranges(n_columns, problem), plan.weights(rows, problem)
        work, batches = plan.fused(rows, weights, n_columns, ranges, max_slots(problem), short)
        n_blocks = tensor_path_of(problem).n_resident(problem)
        is_mixed = not problem.is_implicit and plan.mixes_lengths(arrays.n_half_columns(inner))
        for batch in batches:
            formed = slice(batch.first_slot, batch.first_slot + batch.n_items)
            work.items[formed] = plan.balanced(work.items[formed], n_blocks, is_mixed=is_mixed)
    else:
        work = plan.two_phase(rows)
        batches = plan.batches(work.splits, tiling(inner).max_slots)
    n_slots = max((batch.n_slots for batch in batches), default=0)
    return Work(work, batches, n_slots * path.slot_bytes(inner))


def n_ranges(n_columns: int, problem: AlsObjective) -> int:
    """Ranges of a fixed side with `n_columns` rows, at which long rows are cut on tensor cores.

    One for wide tables: moving the sums of a part takes as long as gathering its ratings.
    """
    if tensor_path_of(problem) is wide:
        return 1
    cache: int = cupy.cuda.Device().attributes["L2CacheSize"]
    return plan.n_ranges(n_columns * 2 * arrays.n_half_columns(_solved_at_once(problem)), cache)


def max_slots(problem: AlsObjective) -> int:
    """Number of parts of rows whose sums may be in memory together, on each side."""
    _, total = cupy.cuda.runtime.memGetInfo()
    return int(total // plan.SLOTS_SHARE // path_of(problem).slot_bytes(_solved_at_once(problem)))


def load(table: NDArray[np.float32], problem: AlsObjective) -> Table:
    """The table (rows, D) on the device, in every form that kernels read."""
    return arrays.table_of(table, problem, is_fused(problem))


def fetch(table: Table) -> NDArray[np.float32]:
    """The table (rows, D) on the host; waits for the device."""
    return arrays.fetched(table)


def part(table: Table, rows: slice) -> Table:
    """Consecutive rows of the table, not copied.

    Raises:
        InvalidParams: some rows of a table that is solved in blocks of factors.
    """
    if rows == slice(0, len(table.values)):
        return table
    if table.n_factors is not None:
        raise InvalidParams(f"Invalid n_factors: expected at most {WHOLE} on several devices, got {table.n_factors}")
    return table.part(rows)


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

    The latter is float16 for tensor cores, in memory that the kernels of other ranks can write where devices reach each
    other's memory; and float32 for other kernels.

    Args:
        bounds: int64 (P + 1,), first row of each rank.
        is_shared: whether the other half reads the rows of all ranks. Else there is no second table.
        on_host: whether float32 rows stay on the host, from where solving loads them; see `can_load_rows`.
        in_waves: whether float16 rows stay there too, from where the other half loads them in waves; not if shared.

    Raises:
        InvalidParams: several ranks, and rows are solved in blocks of factors.
    """
    own = slice(*bounds[exchange.rank : exchange.rank + 2].tolist())
    n_own, n_rows = own.stop - own.start, int(bounds[-1])
    if exchange.size == 1 and not on_host:
        table = load(np.zeros((n_rows, width(problem)), dtype=np.float32), problem)
        return table, table if is_shared else None
    if is_blocked(problem):
        raise InvalidParams(f"Invalid n_factors: expected at most {WHOLE} on several devices, got {problem.n_factors}")
    n_read = n_rows if is_shared else n_own
    if not is_fused(problem):
        values = cupy.zeros((n_read, width(problem)), dtype=cupy.float32)
        return (Table(values[own], None), Table(values, None)) if is_shared else (Table(values, None), None)
    exact, rounded = ((np if is_there else cupy) for is_there in (on_host, in_waves))
    values, shape = exact.zeros((n_own, width(problem)), dtype=np.float32), (n_read, arrays.n_half_columns(problem))
    if not is_shared:
        return Table(values, rounded.zeros(shape, dtype=np.float16)), None
    halves, peers = shared_zeros(shape, cupy.float16, exchange)
    whole = Table(None, halves)
    if 0 < len(peers) <= fused.MOST_PEERS:
        whole = replace(whole, peers=peers, fence=cupy.zeros(1, dtype=cupy.float32))
    return replace(whole.part(own), values=values), whole


def can_load_rows(problem: AlsObjective) -> bool:
    """Whether float32 rows can stay on the host: where kernels read float16 ones of the other side."""
    return is_fused(problem) and not is_blocked(problem)


def fill(table: Table, own: NDArray[np.float32], problem: AlsObjective) -> None:
    """Replace all rows of a table, in every form that kernels read."""
    if is_blocked(problem):
        given = load(own, problem)
        for name in ("values", "halves", "biases"):
            if getattr(table, name) is not None:
                getattr(table, name)[...] = getattr(given, name)
        return
    n_rows = max(1, COPIED_BYTES // (4 * width(problem)))
    for first in range(0, len(own), n_rows):
        piece = slice(first, first + n_rows)
        rows = to_device(own[piece])
        table.values[piece] = own[piece] if type(table.values) is np.ndarray else rows
        if table.halves is not None:
            halves = arrays.halves_of(rows, problem)
            table.halves[piece] = halves.get() if type(table.halves) is np.ndarray else halves


def gather(exchange: Exchange, whole: Table, bounds: NDArray[np.int64], *, is_stored: bool = False) -> None:
    """Send what the other half reads of each rank's rows to all ranks; arguments as in `place`.

    Args:
        is_stored: whether kernels have solved the rows: where they have stored them in the tables of all ranks already,
            ranks only wait for each other.
    """
    if is_stored and whole.peers:
        n_own = int(bounds[exchange.rank + 1] - bounds[exchange.rank])
        with exchange.traffic.of("stores", n_own * whole.halves[:1].nbytes * len(whole.peers)):
            exchange.reduce(whole.fence)
    else:
        exchange.gather(whole.values if whole.halves is None else whole.halves, bounds)


def pieces(exchange: Exchange, table: Table, bounds: NDArray[np.int64]) -> Iterator[tuple[int, Table]]:
    """The rows of all ranks in turn, as (number of the first row, rows); `table` has those of this rank."""
    if exchange.size == 1:
        yield 0, table
        return
    for first, values in in_turn(exchange, table.values, bounds):
        yield first, Table(values, None)


def solve(side: Side, solved: Table, fixed: Table, problem: AlsObjective) -> None:
    """Minimize over every row of `solved`, in place, against `fixed`; rows without ratings become zero.

    Returns before the work is done: see `finish`.

    Args:
        side: the ratings of the rows of `solved`; entries are rows of `fixed`.
        solved: its content is the start of conjugate gradients or of the blocks.
        fixed: the other side.
    """
    if len(side.empty):
        solved.values[side.empty] = 0
        if solved.biases is not None:
            solved.biases[side.empty] = 0
    if is_blocked(problem):
        subspace.solve(fused.improve if is_fused(problem) else plain.improve, side, solved, fixed, problem)
    else:
        path_of(problem).solve(side, solved, fixed, problem)


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
    squares, loss = losses.errors(side, table, fixed, problem, scale, first_column=first)
    return squares, loss + (losses.of_unrated(table, fixed) if problem.is_implicit else 0.0)


def penalty(side: Side, table: Table, problem: AlsObjective) -> float:
    """Regularization of the objective: Σ ρ |x|² over the rows of `side`."""
    del problem
    return losses.penalty(side.ridges, table)
