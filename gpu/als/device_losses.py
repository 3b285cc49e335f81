"""Errors of the parameters, and the parts of the objective, on the device, for solvers of both precisions."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from gpu.als import device_plan as plan
from gpu.als import device_sides as sides
from gpu.als.device_sides import Side, Table
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
    n_items, n_rows, n_columns = side.items.size // ITEM.itemsize, len(table.values), len(fixed.values)
    if not (n_items and n_rows and n_columns):
        return 0.0, 0.0
    sums = cupy.empty((n_items, 2), dtype=cupy.float64)
    constants = plan.solver_of(problem, side.n_rated)
    ratings, bounds = (side.items, side.columns, side.values), (np.float32(scale[0]), np.float32(scale[1]))
    tables = table.values, fixed.values, table.biases, fixed.biases
    window = tuple(np.int32(number) for number in (first_row, n_rows, first_column, n_columns))
    arguments = *ratings, *tables, *window, constants, *bounds, sums
    kernel(NAME, "errors", defines(problem))((n_items,), (THREADS,), arguments)
    squares, loss = sums.sum(axis=0).get()
    return float(squares), float(loss)


def of_unrated(table: Table, fixed: Table) -> float:
    """Σ r̂² over all pairs of two tables without biases."""
    return float(np.sum(sides.exact_gram(table.values) * sides.exact_gram(fixed.values)))


def penalty(ridges: Any, table: Table) -> float:
    """Σ ρ |x|² over the rows of `table`; `ridges`: float64 (rows,), ρ."""
    squares: Any = _norms(table.values, axis=1)
    if table.biases is not None:
        squares += table.biases.astype(cupy.float64) ** 2
    return float((ridges * squares).sum())
