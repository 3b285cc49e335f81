"""ALS with many factors on the device: rows are improved block by block of `BLOCK` factors; see
`gpu.als.host_subspace`.

The residual of each rating is kept in memory, 4 bytes a rating. For each block the kernels that solve whole rows of
`BLOCK` factors form A and the gradient and find the step (compiled with `STEP`). Then the prediction of the step is
subtracted from every residual. A half-iteration gathers the fixed side three times: before the first block, with A, and
after the step. Kernels and their ownership of data: kernels/als_subspace.cu.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import cupy
import numpy as np

from gpu.als import device_plan as plan
from gpu.als import device_sides as sides
from gpu.als.device_sides import Side, Table
from gpu.als.objective import BLOCK, AlsObjective, n_blocks
from gpu.cuda.kernels import kernel

NAME = "als_subspace"
THREADS = 128  # threads of a block


class Block(NamedTuple):
    """One block of W factors, in the form of the solvers of whole rows.

    Attributes:
        values: float32, the solved table from the block's first column on, with the table's stride of rows.
        halves: float16 (rows, W), the solved table's block; None in float32.
        fixed: like `values`, of the fixed side.
        fixed_halves: float16 (columns, W), or None.
        lacks: float32 (N,), residual of each rating.
        gram: float32 (W, W), VᵀV of the block; None for explicit problems.
        product: float32 (rows, W), VᵀV x of the block; None for explicit problems.
        steps: float32 (rows, W), output for the solution.
    """

    values: Any
    halves: Any
    fixed: Any
    fixed_halves: Any
    lacks: Any
    gram: Any
    product: Any
    steps: Any


Improve = Callable[[Side, Block, AlsObjective], None]  # solves one block of all rows


def bytes_needed(n_ratings: int, n_longer: int, problem: AlsObjective) -> int:
    """Bytes of work memory in a half-iteration: residuals, steps, VᵀV x, and VᵀV."""
    steps = 4 * BLOCK * n_longer * (2 if problem.is_implicit else 1)
    return 4 * n_ratings + steps + 4 * sides.stride(problem) ** 2 * problem.is_implicit


def solve(improve: Improve, side: Side, solved: Table, fixed: Table, problem: AlsObjective) -> None:
    """Run one half-iteration, in place in `solved`, by `improve`; rows without ratings do not change."""
    lacks = cupy.empty(len(side.values), dtype=cupy.float32)
    steps = cupy.zeros((len(solved.values), BLOCK), dtype=cupy.float32)  # rows without ratings keep a step of zeros
    gram = sides.gram(fixed.values) if problem.is_implicit else None
    for n in range(n_blocks(problem)):
        _explain(side, lacks, fixed, n, solved.values[:, _columns(n)], problem, is_first=n == 0)
    if problem.biases and len(side.starts):
        ridges = problem.regularization * side.lengths + problem.prior  # only explicit problems have biases
        arguments = side.starts, side.lengths, ridges, lacks, solved.biases
        _kernel("solve_biases", solved, problem)((len(side.starts),), (THREADS,), arguments)
    for n in range(n_blocks(problem)):
        columns = _columns(n)
        halves = (None, None) if solved.halves is None else (solved.halves[n], fixed.halves[n])
        grams = (None, None)
        if gram is not None:
            grams = cupy.ascontiguousarray(gram[columns, columns]), solved.values @ gram[:, columns]
        tables = solved.values[:, columns], halves[0], fixed.values[:, columns], halves[1]
        improve(side, Block(*tables, lacks, *grams, steps), problem)
        _explain(side, lacks, fixed, n, steps, problem)


def _columns(number: int) -> slice:
    return slice(number * BLOCK, (number + 1) * BLOCK)


def _explain(
    side: Side, lacks: Any, fixed: Table, number: int, steps: Any, problem: AlsObjective, is_first: bool = False
) -> None:
    """Subtract the predictions of `steps` (rows, W) in a block from the residuals; if `is_first`, from the ratings."""
    n_items = len(side.plan.items)
    if not n_items:
        return
    table = fixed.values[:, _columns(number)] if fixed.halves is None else fixed.halves[number]
    stride = np.int32(steps.strides[0] // steps.itemsize)
    ratings = side.items, side.columns, side.values
    constants = plan.solver_of(problem, side.n_rated)
    arguments = *ratings, table, fixed.biases, steps, stride, np.int32(is_first), constants, lacks
    _kernel("explain", fixed, problem)((n_items,), (THREADS,), arguments)


def _kernel(function: str, table: Table, problem: AlsObjective) -> Any:
    return kernel(NAME, function, defines(problem, table.halves is not None))


def defines(problem: AlsObjective, has_halves: bool) -> dict[str, int]:
    """Macros of kernels/als_subspace.cu."""
    kind = {"IMPLICIT": int(problem.is_implicit), "BIASES": int(problem.biases)}
    return {"BLOCK": BLOCK, "HALF": int(has_halves), "STRIDE": sides.stride(problem), **kind}
