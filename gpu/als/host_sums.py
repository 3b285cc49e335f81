"""ALS on the CPU in mode "reduce" of several ranks: A and b are added up, then solved by Cholesky in double precision.

See `gpu.als.halves`. One thread adds up, or solves, a row from start to end. The fixed rows of a rank are read in waves
that follow each other ([001] Alg. 3, line 9, with more parts than GPUs): only those of a wave are needed at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.als import host as als
from gpu.als import host_cg as cg
from gpu.als.host import Table, add_row
from gpu.als.objective import RATING_BYTES, AlsObjective, width
from gpu.als.sum_batches import SumBatch
from gpu.base.host import njit, prange
from gpu.data.host_solve import solve as solve_symmetric
from gpu.data.ratings import Rows
from gpu.data.views import within_columns

SUMS_BYTES = 256 * 2**20  # of A and b of the rows of one batch
WAVE_BYTES = 2**30  # of the fixed rows of one wave, in the form that is read
ERRORS_AT_ONCE = 2**24  # ratings


class Sums(NamedTuple):
    """Ratings whose entries are rows of the fixed side that this rank owns.

    Attributes:
        rows: whole rows of the side to solve.
        columns: the fixed rows of this rank.
        own: the rows that this rank solves.
        n_rated: number of rows of the whole fixed side that have ratings.
        width: D.
        waves: of `columns`, from the first on.
        parts: the ratings of each batch, wave by wave. None: they are read again from `rows`, wave by wave.
    """

    rows: Rows
    columns: slice
    own: slice
    n_rated: int
    width: int
    waves: list[slice]
    parts: list[list[Rows]] | None


class Loaded(NamedTuple):
    """The ratings of a batch over the fixed rows of one wave, and what solving its rows needs.

    Attributes:
        rows: the ratings.
        wave: fixed rows, from the first of this rank on.
        found: float64 (n, D + 1, D), A and b of the rows over the waves up to this one, b last.
        is_last: whether no more wave follows.
    """

    batch: SumBatch
    rows: Rows
    wave: slice
    found: NDArray[np.float64]
    is_last: bool
    sums: Sums


def is_available() -> bool:
    """True: every host can add up."""
    return True


def compile_once(problem: AlsObjective) -> None:
    """Do nothing: Numba's cache has all kernels."""
    del problem


def fixed_bytes(problem: AlsObjective) -> int:
    """Bytes of a fixed row in the form that is read."""
    return 4 * als.padded(problem)


def most_rows(problem: AlsObjective) -> int:
    """Rows of a batch."""
    return max(1, SUMS_BYTES // _row_bytes(problem))


def _row_bytes(problem: AlsObjective) -> int:
    """Bytes of A and b of a row."""
    return 8 * width(problem) * (width(problem) + 1)


def slots_bytes(n_rows: int, n_ratings: int, problem: AlsObjective) -> int:
    """Bytes of the sums of `n_rows` rows with `n_ratings` over the fixed rows of this rank."""
    del n_ratings
    return n_rows * _row_bytes(problem)


def batch_bytes(n_ratings: NDArray[np.int64], n_rows: NDArray[np.int64], n_own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of batches without their sums.

    Args:
        n_ratings, n_rows: int64 (q,), ratings over the fixed rows of this rank, and rows.
        n_own: int64 (q,), rows that this rank solves.
    """
    del n_rows, n_own
    return RATING_BYTES * n_ratings


def prepare(
    rows: Rows,
    columns: slice,
    own: slice,
    batches: Sequence[SumBatch],
    problem: AlsObjective,
    n_rated: int,
    feed: Any,
    tables: tuple[Table, Table],
    waves: NDArray[np.int64] | None = None,
) -> Sums:
    """Ratings to add up over the fixed rows `columns`.

    Args:
        rows: whole rows of the side to solve.
        columns: consecutive rows of the fixed side.
        own: the rows that this rank solves.
        batches: whose sums are in memory together.
        problem: the objective.
        n_rated: number of rows of the whole fixed side that have ratings.
        feed: if the ratings of each batch are to be read again in every half; None: they stay in memory.
        tables: not used: see the twin.
        waves: int64 (w + 1,), bounds of waves of `columns`, from 0. Default: of at most `WAVE_BYTES` each.
    """
    del tables
    if waves is None:
        n_fixed = columns.stop - columns.start
        n_waves = max(1, -(-fixed_bytes(problem) * n_fixed // WAVE_BYTES))
        waves = np.arange(n_waves + 1) * n_fixed // n_waves
    of_waves = [slice(*ends) for ends in pairwise(waves.tolist())]
    sums = Sums(rows, columns, own, n_rated, width(problem), of_waves, None)
    if feed is not None:
        return sums
    return sums._replace(parts=[list(_read(sums, batch.numbers)) for batch in batches])


def _read(sums: Sums, numbers: NDArray[np.int64]) -> Iterator[Rows]:
    """The rows `numbers` over the columns of each wave."""
    first = sums.columns.start
    for wave in sums.waves:
        yield within_columns(sums.rows.at(numbers), slice(first + wave.start, first + wave.stop))


def loaded(sums: Sums, batches: Sequence[SumBatch]) -> Iterator[tuple[SumBatch, Loaded]]:
    """Each batch with its ratings, wave by wave."""
    for n, batch in enumerate(batches):
        parts = _read(sums, batch.numbers) if sums.parts is None else sums.parts[n]
        found = np.zeros((len(batch.numbers), sums.width + 1, sums.width))
        for wave, rows in zip(sums.waves, parts, strict=True):
            yield batch, Loaded(batch, rows, wave, found, wave == sums.waves[-1], sums)


def gram_to_add(sums: Sums, part: Table, problem: AlsObjective) -> NDArray[np.float64] | None:
    """VᵀV (D, D) of some rows of the fixed side; None for explicit problems."""
    del sums
    return als.gram_of(np.ascontiguousarray(part)) if problem.is_implicit else None


def add_up(batch: Loaded, part: Table, problem: AlsObjective) -> NDArray[np.float64]:
    """A and b of the rows of a batch over the fixed rows `part` up to this wave: float64 (n, D + 1, D), b last."""
    _add_rows(batch.rows, als.system_of(part[batch.wave], problem, has_gram=False), batch.found)
    return batch.found


def solve(
    batch: Loaded, totals: NDArray[np.float64], gram: NDArray[np.float64] | None, table: Table, problem: AlsObjective
) -> None:
    """Solve the rows of this rank in a batch, in place in `table`; `totals` begins with their A and b of all ranks."""
    own, sums = batch.batch.own, batch.sums
    known = np.zeros((0, table.shape[1])) if gram is None else gram
    lengths = sums.rows.lengths[sums.own][own]
    _solve_rows(totals[: len(lengths)], known, problem.ridges(lengths, sums.n_rated), lengths > 0, table[own])


def errors(
    sums: Sums, table: Table, part: Table, problem: AlsObjective, scale: tuple[float, float], first: int
) -> tuple[float, float]:
    """As `gpu.als.host.errors`, of consecutive rows `table`, from row `first` on, over the fixed rows `part`."""
    squares, loss = 0.0, als.of_unrated(table, part) if problem.is_implicit else 0.0
    ends = np.cumsum(sums.rows.lengths[first : first + len(table)])
    cuts = np.searchsorted(ends, np.arange(ERRORS_AT_ONCE, ends[-1:].sum(), ERRORS_AT_ONCE))
    for low, high in pairwise([0, *cuts.tolist(), len(table)]):
        rows = within_columns(sums.rows.at(slice(first + low, first + high)), sums.columns)
        found = als.errors_of(rows, table[low:high], part, problem, scale)
        squares, loss = squares + found[0], loss + found[1]
    return squares, loss


def penalty(sums: Sums, table: Table, problem: AlsObjective) -> float:
    """As `gpu.als.host.penalty`, of the rows that this rank solves."""
    return als.penalty_of(sums.rows.lengths[sums.own], sums.n_rated, table, problem)


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _add_rows(rows: Rows, system: cg.System, found: NDArray[np.float64]) -> None:
    n = found.shape[2]
    for x in prange(len(found)):
        add_row(rows, x, system, found[x, :n], found[x, n])


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
