"""Errors of the parameters, and the parts of the objective, on the device, for solvers of both precisions."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from gpu.als import device_plan as plan
from gpu.als import device_sides as sides
from gpu.als.device_sides import PASSING_BYTES, Side, Table, here, on_device
from gpu.als.objective import AlsObjective, is_blocked
from gpu.cuda.kernels import kernel
from gpu.cuda.work import ITEM

NAME = "als_errors"
THREADS = 128  # threads of a block that sums errors
IN_ROW, APART = 1, 2  # where biases are: in a column of the table, or in an array of their own

_norms = cupy.ReductionKernel("float32 x", "float64 y", "(double)x * x", "a + b", "y = a", "0", "nearfield_norms")


def defines(problem: AlsObjective) -> dict[str, int]:
    """Macros of kernels/als_errors.cu."""
    stride = sides.stride(problem)
    biases = problem.biases * (APART if is_blocked(problem) else IN_ROW)
    implicit = int(problem.is_implicit)
    return {"D": stride, "STRIDE": stride, "BIASES": biases, "IMPLICIT": implicit, "ERROR_THREADS": THREADS}


def errors(
    side: Side,
    table: Table,
    fixed: Table,
    problem: AlsObjective,
    scale: tuple[float, float],
    first_row: int = 0,
    first_column: int = 0,
) -> tuple[float, float]:
    """(Σ (r − clip(r̂))², data loss) over the ratings of `side` whose rows are in both tables.

    The loss of implicit problems is Σ c (p − r̂)² − r̂²: `of_unrated` already counts r̂² of rated pairs.

    Args:
        first_row, first_column: numbers of the first rows of `table` and of `fixed`.
    """
    n_items, squares, loss = side.items.size // ITEM.itemsize, 0.0, 0.0
    constants, ratings = plan.solver_of(problem, side.n_rated), (side.items, side.columns, side.values)
    for row, values in on_device(table.values):
        for column, others in on_device(fixed.values):
            if not (n_items and len(values) and len(others)):
                continue
            sums = cupy.empty((n_items, 2), dtype=cupy.float64)
            window = first_row + row, len(values), first_column + column, len(others)
            tables = values, others, table.biases, fixed.biases, *map(np.int32, window)
            arguments = *ratings, *tables, constants, np.float32(scale[0]), np.float32(scale[1]), sums
            kernel(NAME, "errors", defines(problem))((n_items,), (THREADS,), arguments)
            found = sums.sum(axis=0).get()
            squares, loss = squares + float(found[0]), loss + float(found[1])
    return squares, loss


def of_unrated(table: Table, fixed: Table) -> float:
    """Σ r̂² over all pairs of two tables without biases."""
    return float(np.sum(sides.exact_gram(table.values) * sides.exact_gram(fixed.values)))


def penalty(ridges: Any, table: Table) -> float:
    """Σ ρ |x|² over the rows of `table`; `ridges`: float64 (rows,), ρ, on the device or on the host."""
    total, n_rows = 0.0, max(1, PASSING_BYTES // (4 * table.values.shape[1]))
    for first in range(0, len(table.values), n_rows):
        piece = slice(first, first + n_rows)
        squares: Any = _norms(here(table.values[piece]), axis=1)
        if table.biases is not None:
            squares += table.biases[piece].astype(cupy.float64) ** 2
        total += float((here(ridges[piece]) * squares).sum())
    return total
