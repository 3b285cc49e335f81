"""ALS on a CUDA device: what is placed there, which kernels solve it, its errors; see `gpu.als` for what is solved.

Two sets of kernels: on tensor cores with A kept in registers (`gpu.device.fused`: float16, conjugate gradients, compute
capability 8.0), and in float32 with A in memory (`gpu.device.plain`) for everything else. Both give equal bits for
equal inputs on equal devices.
"""

from __future__ import annotations

from types import ModuleType

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.als import Problem, width
from gpu.device import TENSOR_CORES, arrays, compute_capability, fused, plain, plan
from gpu.device.arrays import PANEL, Side, Table, free_bytes
from gpu.device.tiling import tiling
from gpu.ratings import Rows

__all__ = ["free_bytes"]  # a primitive of every family; the others are written here

WORKSPACE = 64 * 2**20  # bytes that matrix products and reductions of CuPy may take
SLOTS_SHARE = 16  # parts of rows may take 1/16 of the device's memory, on each side

_norms = cupy.ReductionKernel("float32 x", "float64 y", "(double)x * x", "a + b", "y = a", "0", "nearfield_norms")


def is_fused(problem: Problem) -> bool:
    """Whether tensor cores solve it."""
    return problem.precision == "float16" and problem.solver == "cg" and compute_capability() >= TENSOR_CORES


def _path(problem: Problem) -> ModuleType:
    """The module whose kernels solve it."""
    return fused if is_fused(problem) else plain


def bytes_needed(by_user_lengths: NDArray[np.int64], by_item_lengths: NDArray[np.int64], problem: Problem) -> int:
    """Memory that a training takes on the device, at its peak.

    Counted: ratings (8 bytes, once a side), work items and split rows (32), sums of their errors (16), ρ (8), rows
    without ratings (8), both tables in float32 and, for tensor cores, float16; sums of parts of rows, or of a batch of
    rows; panels of float64; work space of matrix products.
    """
    n_users, n_items = len(by_user_lengths), len(by_item_lengths)
    halves = 2 * arrays.n_half_columns(problem) if is_fused(problem) else 0
    tables = (n_users + n_items) * (4 * width(problem) + halves)
    sides = _side_bytes(by_user_lengths, n_items, problem) + _side_bytes(by_item_lengths, n_users, problem)
    return tables + sides + 2 * 8 * PANEL * width(problem) * problem.is_implicit + WORKSPACE


def _side_bytes(lengths: NDArray[np.int64], n_columns: int, problem: Problem) -> int:
    n_rated = int(np.count_nonzero(lengths))
    if is_fused(problem):
        ranges = _n_ranges(n_columns, problem)
        cut = plan.cut_of(lengths, ranges, _max_slots(problem))
        n_slots, n_split = plan.slots_of(lengths, ranges, cut), int(np.count_nonzero(lengths > min(cut)))
        n_items, held = n_slots + n_rated - n_split, n_slots
    else:
        n_split, n_items = n_rated, int(plan.n_parts_of(lengths).sum())
        held = min(n_items, tiling(problem).max_slots)
    sums: int = held * _path(problem).slot_bytes(problem)
    return 8 * int(lengths.sum()) + (32 + 16) * n_items + 32 * n_split + (8 + 8) * len(lengths) + sums


def prepare(rows: Rows, n_columns: int, problem: Problem, n_rated: int | None = None) -> Side:
    """Place the ratings of one side, with the plan of its half-iterations.

    Args:
        rows: ratings of the side to be solved.
        n_columns: rows of the fixed side.
        n_rated: how many of these have ratings; all where it is not given.
    """
    n_rated = n_columns if n_rated is None else n_rated
    ridges = problem.ridges(rows.lengths, n_rated)
    if is_fused(problem):
        weights, ranges = plan.weights(rows, problem), _n_ranges(n_columns, problem)
        work = plan.fused(rows, weights, n_columns, ranges, _max_slots(problem))
        return arrays.side_of(rows, work, [], ridges, n_rated, work.n_slots * _path(problem).slot_bytes(problem))
    work = plan.two_phase(rows)
    batches = plan.batches(work.splits, tiling(problem).max_slots)
    n_slots = max((batch.n_slots for batch in batches), default=0)
    return arrays.side_of(rows, work, batches, ridges, n_rated, n_slots * plain.slot_bytes(problem))


def _n_ranges(n_columns: int, problem: Problem) -> int:
    cache: int = cupy.cuda.Device().attributes["L2CacheSize"]
    return plan.n_ranges(n_columns * 2 * arrays.n_half_columns(problem), cache)


def _max_slots(problem: Problem) -> int:
    _, total = cupy.cuda.runtime.memGetInfo()
    return int(total // SLOTS_SHARE // _path(problem).slot_bytes(problem))


def place(table: NDArray[np.float32], problem: Problem) -> Table:
    """The table (rows, D) on the device, in every form that kernels read."""
    values = arrays.placed(table)
    return Table(values, arrays.halves_of(values, problem) if is_fused(problem) else None)


def fetch(table: Table) -> NDArray[np.float32]:
    """The table (rows, D) on the host; waits for what writes it."""
    values: NDArray[np.float32] = table.values.get()
    return values


def finish() -> None:
    """Wait for what was begun."""
    cupy.cuda.get_current_stream().synchronize()


def solve(side: Side, solved: Table, fixed: Table, problem: Problem) -> None:
    """Minimise over every row of `solved`, in place, while `fixed` stands still; rows without ratings become zero.

    Returns before the work is done: see `finish`.

    Args:
        side: the ratings of the rows of `solved`; entries are rows of `fixed`.
        solved: its content is where conjugate gradients start.
        fixed: the other side.
    """
    if len(side.empty):
        solved.values[side.empty] = 0
    _path(problem).solve(side, solved, fixed, problem)


def errors(side: Side, table: Table, fixed: Table, problem: Problem, scale: tuple[float, float]) -> tuple[float, float]:
    """(Σ (r − clip(r̂))² over the ratings of `side`, data loss of the objective without its regularisation).

    The data loss is Σ (r − r̂)²; for implicit problems Σ c (p − x·y)² over all pairs, rated or not.
    """
    squares, loss = plain.errors(side, table, fixed, problem, scale)
    if problem.is_implicit:
        loss += float(np.sum(arrays.exact_gram(table.values) * arrays.exact_gram(fixed.values)))
    return squares, loss


def penalty(side: Side, table: Table, problem: Problem) -> float:
    """Regularisation of the objective: Σ ρ |x|² over the rows of `side`."""
    del problem
    return float((side.ridges * _norms(table.values, axis=1)).sum())
