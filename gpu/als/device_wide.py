"""Half-iterations of explicit problems with many factors, 145 to 256 columns, on Hopper's tensor cores.

They do the same as `gpu.als.device_fused` for tables so wide that A takes the registers of a whole
multiprocessor: one block per multiprocessor, with instructions that only compute capability 9.0 has. The kernel of
`gpu.als.device_fused` solves short rows. Kernels and their ownership of data: kernels/als_wide.cu.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.als import device_fused as fused
from gpu.als import device_plan as plan
from gpu.als import device_sides as sides
from gpu.als.device_fused import Macros
from gpu.als.device_sides import Side, Table
from gpu.als.objective import WHOLE, AlsObjective
from gpu.base.device import compute_capability
from gpu.cuda.kernels import kernel, module
from gpu.cuda.launcher import blocks_at_once

NAME = "als_wide"
HOPPER, ARCHITECTURE = 90, "sm_90a"


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
    is_shape = sides.n_half_columns(problem) > plan.NARROW and problem.n_factors <= WHOLE
    is_kind = not problem.is_implicit and (not problem.biases or problem.n_factors % 8 == 0)
    return is_shape and is_kind and compute_capability() == HOPPER


def defines(problem: AlsObjective) -> dict[str, int]:
    """The macros of kernels/als_wide.cu."""
    return {"F": problem.n_factors, "BIASES": int(problem.biases)}


def slot_bytes(problem: AlsObjective) -> int:
    """Bytes of the sums of one part of a row; compiles the kernels."""
    return _geometry(defines(problem)).slot_bytes


def n_resident(problem: AlsObjective) -> int:
    """As the twin in `gpu.als.device_fused`."""
    macros = defines(problem)
    geometry = _geometry(macros)
    return blocks_at_once(_kernel("solve_rows", macros), geometry.threads, geometry.shared_bytes)


def solve(side: Side, solved: Table, fixed: Table, problem: AlsObjective) -> None:
    """Run one half-iteration, in place in both forms of `solved`; rows without ratings do not change."""
    half, constants = fused.half_of(side, solved, fixed, None, None), plan.solver_of(problem, side.n_rated)
    macros = defines(problem)
    for items, splits, batch in fused.launches(side):
        form(items, batch.n_items, batch.n_slots, half, constants, macros)
        solve_split_rows(splits, batch.n_splits, half, constants, macros)
    fused.solve_short_rows(side, half, constants, fused.defines(problem))


def form(
    items: Any, n_items: int, n_parts: int, half: NDArray[np.void], constants: NDArray[np.void], macros: Macros
) -> None:
    """As the twin in `gpu.als.device_fused`."""
    if n_items:
        geometry = _geometry(macros)
        block, counts = (geometry.threads, geometry.shared_bytes), (np.uint32(n_items), np.uint32(n_parts))
        fused.launch(_kernel("solve_rows", macros), *block, n_items, items, *counts, half, constants)


def solve_split_rows(
    splits: Any, n_splits: int, half: NDArray[np.void], constants: NDArray[np.void], macros: Macros
) -> None:
    """As the twin in `gpu.als.device_fused`."""
    if n_splits:
        geometry, solver = _geometry(macros), _kernel("solve_split_rows", macros)
        solver((n_splits,), (geometry.solvers,), (splits, half, constants), shared_mem=geometry.shared_bytes)


def _kernel(function: str, macros: Macros) -> Any:
    return kernel(NAME, function, dict(macros), _geometry(macros).shared_bytes, ARCHITECTURE)


def _geometry(macros: Macros) -> Geometry:
    loaded = module(NAME, dict(macros), ARCHITECTURE)
    return Geometry(*fused.geometry_of(loaded, len(Geometry._fields)))
