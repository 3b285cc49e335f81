"""Half-iterations without tensor cores: A and b of a batch of rows go to memory, then the batch is solved.

Float32 throughout; what `precision="float32"`, `solver="cholesky"` and devices before compute capability 8.0 take.
Kernels, and who owns what in them: kernels/als_plain.cu.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from gpu.als import Problem
from gpu.device import arrays, plan, shared_memory
from gpu.device.arrays import Side, Table
from gpu.device.kernels import kernel
from gpu.device.tiling import ERROR_THREADS, defines, tiling

NAME = "als_plain"
STATIC_SHARED = 2048  # bytes, at most, of a solver beside A


def slot_bytes(problem: Problem) -> int:
    """Memory of the sums A and b of one row, or of a part of one."""
    return tiling(problem).slot_bytes


def solve(side: Side, solved: Table, fixed: Table, problem: Problem) -> None:
    """One half-iteration, in place of `solved.values`; rows without ratings are left alone."""
    sizes = tiling(problem)
    form, finish = _kernel("form", problem), _kernel(f"solve_{problem.solver}", problem)
    constants = plan.solver_of(problem, side.n_rated)
    gram = arrays.gram(fixed.values) if problem.is_implicit else None
    shared = sizes.packed_bytes if _fits(problem) else 0
    for batch in side.batches:
        items = side.items[plan.ITEM.itemsize * batch.first_slot :]
        splits = side.splits[plan.SPLIT.itemsize * batch.first_split :]
        first = np.int32(batch.first_slot)
        ratings = side.columns, side.values, fixed.values
        form((batch.n_slots,), (sizes.form_threads,), (items, *ratings, constants, first, side.slots))
        arguments = splits, first, side.slots, gram, constants, solved.values
        finish((batch.n_splits,), (sizes.solve_threads,), arguments, shared_mem=shared)


def errors(side: Side, table: Table, fixed: Table, problem: Problem, scale: tuple[float, float]) -> tuple[float, float]:
    """(Σ (r − clip(r̂))², data loss) over the ratings of `side`; implicit: Σ c (p − r̂)² − r̂², as if r̂² were counted."""
    n_items = len(side.plan.items)
    if not n_items:
        return 0.0, 0.0
    sums = cupy.empty((n_items, 2), dtype=cupy.float64)
    constants = plan.solver_of(problem, side.n_rated)
    tables, bounds = (table.values, fixed.values), (np.float32(scale[0]), np.float32(scale[1]))
    arguments = side.items, side.columns, side.values, *tables, constants, *bounds, sums
    _kernel("errors", problem)((n_items,), (ERROR_THREADS,), arguments)
    squares, loss = sums.sum(axis=0).get()
    return float(squares), float(loss)


def _kernel(function: str, problem: Problem) -> Any:
    fits = _fits(problem)
    shared = tiling(problem).packed_bytes if fits and function.startswith("solve") else 0
    return kernel(NAME, function, defines(problem, fits), shared)


def _fits(problem: Problem) -> bool:
    """Whether the shared memory of a block has room for A."""
    return tiling(problem).packed_bytes + STATIC_SHARED <= shared_memory()
