"""Half-iterations of explicit problems with many factors, 145 to 256 columns, on Hopper's tensor cores.

They do the same as `gpu.device.als_forms.fused` for tables so wide that A takes the registers of a whole
multiprocessor: one block per multiprocessor, with instructions that only compute capability 9.0 has. The kernel of
`gpu.device.als_forms.fused` solves short rows. Kernels and their ownership of data: kernels/als_wide.cu.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpu.device import compute_capability
from gpu.device.als_forms import fused, plan, sides
from gpu.device.als_forms.sides import Side, Table
from gpu.device.kernels import kernel, module
from gpu.training.als import WHOLE, AlsObjective

NAME = "als_wide"
HOPPER, ARCHITECTURE = 90, "sm_90a"
NARROW = 144  # columns of the table; up to this width a few warps hold A


class Geometry(NamedTuple):
    """Sizes that kernels/als_wide.cu defines and exports.

    Attributes:
        threads, solvers: threads of a block, and of a block that only solves.
        shared_bytes: bytes of shared memory of a block.
        slot_bytes: bytes of the sums of a part of a row.
    """

    threads: int
    solvers: int
    shared_bytes: int
    slot_bytes: int


def fits(problem: AlsObjective) -> bool:
    """Whether these kernels solve the problem; with biases, a row's 1 and b̂ need a piece of their own (F % 8 = 0)."""
    is_shape = sides.n_half_columns(problem) > NARROW and problem.n_factors <= WHOLE
    is_kind = not problem.is_implicit and (not problem.biases or problem.n_factors % 8 == 0)
    return is_shape and is_kind and compute_capability() == HOPPER


def defines(problem: AlsObjective) -> dict[str, int]:
    """The macros of kernels/als_wide.cu."""
    return {"F": problem.n_factors, "BIASES": int(problem.biases)}


def slot_bytes(problem: AlsObjective) -> int:
    """Bytes of the sums of one part of a row; compiles the kernels."""
    return _geometry(problem).slot_bytes


def solve(side: Side, solved: Table, fixed: Table, problem: AlsObjective) -> None:
    """Run one half-iteration, in place in both forms of `solved`; rows without ratings do not change."""
    geometry = _geometry(problem)
    half, constants = fused.half_of(side, solved, fixed, None, None), plan.solver_of(problem, side.n_rated)
    n_short, n_splits = side.plan.n_short, len(side.plan.splits)
    if n_items := len(side.plan.items) - n_short:
        block, counts = (geometry.threads, geometry.shared_bytes), (np.uint32(n_items), np.uint32(side.plan.n_slots))
        fused.launch(_kernel("solve_rows", problem), *block, n_items, side.items, *counts, half, constants)
    fused.solve_short_rows(side, half, constants, fused.defines(problem), n_short)
    if n_splits:
        solver = _kernel("solve_split_rows", problem)
        solver((n_splits,), (geometry.solvers,), (side.splits, half, constants), shared_mem=geometry.shared_bytes)


def _kernel(function: str, problem: AlsObjective) -> Any:
    return kernel(NAME, function, defines(problem), _geometry(problem).shared_bytes, ARCHITECTURE)


def _geometry(problem: AlsObjective) -> Geometry:
    loaded = module(NAME, defines(problem), ARCHITECTURE)
    return Geometry(*fused.geometry_of(loaded, len(Geometry._fields)))
