"""ALS on the CPU in mode "reduce" of several ranks: A and b are added up, then solved by Cholesky in double precision.

See `gpu.als.halves`. One thread adds up, or solves, a row from start to end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.als import host as als
from gpu.als import host_cg as cg
from gpu.als.host import Side, Table, add_row
from gpu.als.objective import AlsObjective, width
from gpu.base.host import njit, prange
from gpu.data.host_solve import solve as solve_symmetric
from gpu.data.ratings import Rows
from gpu.data.views import within_columns

SUMS_BYTES = 256 * 2**20  # of A and b of the rows of one batch


class Sums(NamedTuple):
    """Ratings whose entries are rows of the fixed side that this rank owns.

    Attributes:
        side: those ratings of all rows to solve; its `lengths` are those of whole rows.
        is_rated: bool (rows,), whether a row has ratings on any rank.
        batches: (first, last) of rows, last excluded, whose sums are in memory together.
    """

    side: Side
    is_rated: NDArray[np.bool_]
    batches: list[tuple[int, int]]


def is_available() -> bool:
    """True: every host can add up."""
    return True


def bytes_needed(n_rows: int, problem: AlsObjective) -> int:
    """Bytes of the sums of a side with `n_rows` rows."""
    return min(n_rows, _batch_rows(problem)) * _row_bytes(problem)


def prepare(rows: Rows, columns: slice, problem: AlsObjective, n_rated: int) -> Sums:
    """Ratings to add up over the fixed rows `columns`.

    Args:
        rows: whole rows of the side to solve.
        columns: consecutive rows of the fixed side.
        problem: the objective.
        n_rated: number of rows of the whole fixed side that have ratings.
    """
    part = within_columns(rows, columns)
    side = als.prepare(part, columns.stop - columns.start, problem, n_rated)._replace(lengths=rows.lengths)
    n, n_rows = _batch_rows(problem), len(rows.starts)
    batches = [(first, min(first + n, n_rows)) for first in range(0, n_rows, n)]
    return Sums(side, rows.lengths > 0, batches)


def _batch_rows(problem: AlsObjective) -> int:
    """Rows of a batch."""
    return max(1, SUMS_BYTES // _row_bytes(problem))


def _row_bytes(problem: AlsObjective) -> int:
    """Bytes of A and b of a row."""
    return 8 * width(problem) * (width(problem) + 1)


def gram_to_add(part: Table, problem: AlsObjective) -> NDArray[np.float64] | None:
    """VᵀV (D, D) of some rows of the fixed side; None for explicit problems."""
    return als.gram_of(np.ascontiguousarray(part)) if problem.is_implicit else None


def add_up(sums: Sums, batch: tuple[int, int], part: Table, problem: AlsObjective) -> NDArray[np.float64]:
    """A and b of the rows of a batch over the fixed rows `part`: float64 (n, D + 1, D), b last."""
    system = als.system_of(part, problem, has_gram=False)
    found = np.zeros((batch[1] - batch[0], width(problem) + 1, width(problem)))
    _add_rows(sums.side.rows, batch[0], system, found)
    return found


def solve(
    sums: Sums,
    batch: tuple[int, int],
    own: slice,
    totals: NDArray[np.float64],
    gram: NDArray[np.float64] | None,
    table: Table,
    problem: AlsObjective,
) -> None:
    """Solve the rows `own` of a batch, whose A and b have been added up over all ranks, in place in `table`."""
    first, side = batch[0], sums.side
    known = np.zeros((0, table.shape[1])) if gram is None else gram
    mine = totals[own.start - first : own.stop - first]
    _solve_rows(mine, known, problem.ridges(side.lengths[own], side.n_rated), sums.is_rated[own], table[own])


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _add_rows(rows: Rows, first: int, system: cg.System, found: NDArray[np.float64]) -> None:
    n = found.shape[2]
    for x in prange(len(found)):
        add_row(rows, first + x, system, found[x, :n], found[x, n])


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _solve_rows(
    totals: NDArray[np.float64],
    gram: NDArray[np.float64],
    ridges: NDArray[np.float64],
    is_rated: NDArray[np.bool_],
    solved: Table,
) -> None:
    n = solved.shape[1]
    for x in prange(len(totals)):
        matrix, right = totals[x, :n], totals[x, n]
        if len(gram):
            matrix += gram[:n, :n]
        for a in range(n):
            matrix[a, a] += ridges[x]
        if is_rated[x]:
            solve_symmetric(matrix, right)
            solved[x] = right
        else:
            solved[x] = 0
