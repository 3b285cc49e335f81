"""Half-iterations without tensor cores: one kernel writes A and b of a batch of rows to memory, another solves them.

All numbers are float32. `precision="float32"`, `solver="cholesky"` and devices before compute capability 8.0 use this
form. Kernels and their ownership of data: kernels/als_plain.cu.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu.als import device_plan as plan
from gpu.als import device_sides as sides
from gpu.als.device_sides import Side, Table
from gpu.als.device_subspace import Block
from gpu.als.device_tiling import defines, tiling
from gpu.als.objective import AlsObjective, block_problem
from gpu.base.device import shared_memory
from gpu.cuda import work
from gpu.cuda.kernels import kernel

NAME = "als_plain"
STATIC_SHARED = 2048  # bytes, at most; shared memory of a solver without A


def slot_bytes(problem: AlsObjective) -> int:
    """Bytes of the sums A and b of one row, or of a part of one."""
    return tiling(problem).slot_bytes


def solve(side: Side, solved: Table, fixed: Table, problem: AlsObjective) -> None:
    """Run one half-iteration, in place in `solved.values`; rows without ratings do not change."""
    gram = sides.gram(fixed.values) if problem.is_implicit else None
    macros = defines(problem, _fits(problem))
    _solve_rows(side, (None, fixed.values), (gram, solved.values, None, None), problem, macros)


def improve(side: Side, block: Block, problem: AlsObjective) -> None:
    """Improve one block of factors of every row with ratings."""
    inner = block_problem(problem)
    macros = defines(inner, _fits(inner), sides.stride(problem))
    _solve_rows(side, (block.lacks, block.fixed), (block.gram, block.values, block.product, block.steps), inner, macros)


def _solve_rows(
    side: Side, inputs: tuple[Any, ...], outputs: tuple[Any, ...], problem: AlsObjective, macros: Mapping[str, int]
) -> None:
    """Form and solve all batches.

    Args:
        inputs: (residuals of the ratings, or None; the fixed table).
        outputs: (VᵀV or None; the solved table; VᵀV x or None; the array for steps or None).
    """
    sizes, (gram, *tables) = tiling(problem), outputs
    shared = sizes.packed_bytes if macros["IN_SHARED"] else 0
    form = kernel(NAME, "form", dict(macros))
    finish = kernel(NAME, f"solve_{problem.solver}", dict(macros), shared)
    constants = plan.solver_of(problem, side.n_rated)
    for batch in side.batches:
        items = side.items[work.ITEM.itemsize * batch.first_slot :]
        splits = side.splits[work.SPLIT.itemsize * batch.first_split :]
        first = np.int32(batch.first_slot)
        ratings = side.columns, side.values, *inputs
        form((batch.n_slots,), (sizes.form_threads,), (items, *ratings, constants, first, side.slots))
        arguments = splits, first, side.slots, gram, constants, *tables
        if problem.solver == "cholesky":
            arguments = arguments[:6]
        finish((batch.n_splits,), (sizes.solve_threads,), arguments, shared_mem=shared)


def _fits(problem: AlsObjective) -> bool:
    """Whether A fits into the shared memory of a block."""
    return tiling(problem).packed_bytes + STATIC_SHARED <= shared_memory()
