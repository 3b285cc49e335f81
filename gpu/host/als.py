"""ALS on the CPU: one half-iteration, its errors and its memory; see `gpu.als` for what is solved.

A row is solved by one thread from start to end in an order of its own, so a result does not depend on the number of
threads.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from gpu.als import Problem, width
from gpu.host import cg
from gpu.host.solve import BATCH, add_observations
from gpu.ratings import Rows

Table = NDArray[np.float32]
N_RUNS = 64  # sums over all rows are made of this many, whatever the number of threads
MEMORY, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
BYTES_PER_ROW = 64  # of a model beside its factors, and of `prepare`


class Side(NamedTuple):
    """Ratings of one side and what does not change from one half-iteration to the next.

    Attributes:
        rows: the ratings.
        ridges: float64 (rows,), ρ.
        ends: float64 (rows,), work up to and including each row, in ratings.
    """

    rows: Rows
    ridges: NDArray[np.float64]
    ends: NDArray[np.float64]


def free_bytes() -> int:
    """Memory that a training can take: what the machine has available, or less where a control group says so."""
    available = next(line for line in MEMORY.read_text("ascii").splitlines() if line.startswith("MemAvailable:"))
    return min(int(available.split()[1]) * 1024, _left_in_group())


def _left_in_group() -> int:
    """What the limit of our control group leaves; pages of files that it can drop count as free."""
    try:
        limit, used = ((CGROUP / f"memory.{name}").read_text("ascii").strip() for name in ("max", "current"))
        lines = (line.split() for line in (CGROUP / "memory.stat").read_text("ascii").splitlines())
    except OSError:
        return sys.maxsize
    droppable = next((int(value) for name, value in lines if name == "inactive_file"), 0)
    return sys.maxsize if limit == "max" else max(0, int(limit) - int(used) + droppable)


def bytes_needed(by_user_lengths: NDArray[np.int64], by_item_lengths: NDArray[np.int64], problem: Problem) -> int:
    """Memory that a training takes beside its ratings: both tables twice (work and result), and work space."""
    n_rows = len(by_user_lengths) + len(by_item_lengths)
    return n_rows * (2 * 4 * width(problem) + BYTES_PER_ROW) + cg.scratch_bytes(width(problem)) * get_num_threads()


def prepare(rows: Rows, n_columns: int, problem: Problem) -> Side:
    """Take `rows` as they are, each with its ρ and its share of the work."""
    work = rows.lengths + float(width(problem))  # what every row costs, whatever its length, is worth F ratings or so
    return Side(rows, ridges(rows.lengths, n_columns, problem), np.cumsum(work))


def ridges(lengths: NDArray[np.int64], n_columns: int, problem: Problem) -> NDArray[np.float64]:
    """ρ of rows with these numbers of ratings."""
    counts = lengths + (n_columns / problem.alpha if problem.is_implicit else 0.0)
    return (problem.regularization * counts**problem.exponent).astype(np.float64)


def place(table: Table, problem: Problem) -> Table:
    """The table where the backend computes: here itself."""
    del problem
    return table


def fetch(table: Table) -> Table:
    """The table on the host: here itself."""
    return table


def finish() -> None:
    """Wait for what was begun: here all is done already."""


def solve(side: Side, solved: Table, fixed: Table, problem: Problem) -> None:
    """Minimise over every row of `solved`, in place, while `fixed` stands still; rows without ratings become zero.

    Args:
        side: the ratings of the rows of `solved`; entries are rows of `fixed`.
        solved: float32 (rows, D); its content is where conjugate gradients start.
        fixed: float32 (columns, D).
    """
    padded = -width(problem) % cg.LANES
    gram = np.zeros((solved.shape[1] + padded,) * 2, dtype=np.float32)
    if problem.is_implicit:
        gram[: problem.n_factors, : problem.n_factors] = gram_of(fixed)
    terms = cg.Terms(
        problem.is_implicit, problem.biases, np.float32(problem.alpha), np.float32(problem.mean),
        problem.solver == "cholesky", problem.n_cg_steps, np.float32(problem.cg_tolerance),
    )  # fmt: skip
    cg.solve_rows(side.rows, _bounds(side), side.ridges, gram, terms, fixed, solved)


def _bounds(side: Side) -> NDArray[np.int64]:
    """Bounds of as many runs of rows of about equal work as there are threads."""
    if not len(side.ends):
        return np.zeros(2, dtype=np.int64)
    n_threads = get_num_threads()
    targets = np.arange(1, n_threads) * (side.ends[-1] / n_threads)
    return np.concatenate([[0], np.searchsorted(side.ends, targets), [len(side.ends)]]).astype(np.int64)


def gram_of(table: Table) -> NDArray[np.float64]:
    """VᵀV (D, D)."""
    parts = np.zeros((N_RUNS, table.shape[1], table.shape[1]), dtype=np.float32)
    _add_grams(table, parts)
    upper: NDArray[np.float64] = parts.sum(axis=0, dtype=np.float64)
    whole: NDArray[np.float64] = np.triu(upper) + np.triu(upper, 1).T
    return whole


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _add_grams(table: Table, parts: NDArray[np.float32]) -> None:
    """Upper triangles of the sums over `N_RUNS` runs of rows."""
    n = len(table)
    for run in prange(N_RUNS):
        _add_gram(table[n * run // N_RUNS : n * (run + 1) // N_RUNS], parts[run])


@njit(cache=True, nogil=True, error_model="numpy")
def _add_gram(table: Table, gram: NDArray[np.float32]) -> None:
    ones, right = np.ones(BATCH, np.float32), np.zeros(table.shape[1], np.float32)
    nothing = np.zeros(BATCH, np.float32)
    last = np.zeros((BATCH, table.shape[1]), np.float32)
    whole = len(table) // BATCH * BATCH
    for first in range(0, whole, BATCH):
        add_observations(gram, right, table[first : first + BATCH], ones, nothing)
    last[: len(table) - whole] = table[whole:]
    add_observations(gram, right, last, ones, nothing)


def errors(side: Side, table: Table, fixed: Table, problem: Problem, scale: tuple[float, float]) -> tuple[float, float]:
    """(Σ (r − clip(r̂))² over the ratings of `side`, data loss of the objective without its regularisation).

    The data loss is Σ (r − r̂)²; for implicit problems Σ c (p − x·y)² over all pairs, rated or not.
    """
    sums = np.zeros((N_RUNS, 2))
    mean, alpha = np.float32(problem.mean), np.float32(problem.alpha)
    low, high = np.float32(scale[0]), np.float32(scale[1])
    _add_errors(side.rows, table, fixed, (problem.is_implicit, problem.biases), (mean, alpha, low, high), sums)
    squares, loss = sums.sum(axis=0)
    if problem.is_implicit:
        loss += float(np.sum(gram_of(table) * gram_of(fixed)))
    return float(squares), float(loss)


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _add_errors(
    rows: Rows, table: Table, fixed: Table, kind: tuple[bool, bool], constants: tuple[np.float32, ...],
    sums: NDArray[np.float64],
) -> None:  # fmt: skip
    n = len(rows.starts)
    for run in prange(N_RUNS):
        for row in range(n * run // N_RUNS, n * (run + 1) // N_RUNS):
            squares, loss = _row_errors(rows, row, table[row], fixed, kind, constants)
            sums[run, 0] += squares
            sums[run, 1] += loss


@njit(cache=True, nogil=True, error_model="numpy")
def _row_errors(
    rows: Rows, row: int, x: NDArray[np.float32], fixed: Table, kind: tuple[bool, bool],
    constants: tuple[np.float32, ...],
) -> tuple[float, float]:  # fmt: skip
    is_implicit, biases = kind
    mean, alpha, low, high = constants
    squares, loss = 0.0, 0.0
    n_factors = len(x) - biases
    for place in range(rows.starts[row], rows.starts[row] + rows.lengths[row]):
        y, rating = fixed[rows.items[place]], rows.values[place]
        estimate = mean + cg.dot(x[:n_factors], y[:n_factors])
        if biases:
            estimate += x[n_factors] + y[n_factors]
        squares += np.float64(rating - min(max(estimate, low), high)) ** 2
        if not is_implicit:
            loss += np.float64(rating - estimate) ** 2
        elif rating > 0:
            loss += np.float64(1 + alpha * rating) * np.float64(1 - estimate) ** 2 - np.float64(estimate) ** 2
    return squares, loss


def penalty(side: Side, table: Table, problem: Problem) -> float:
    """Regularisation of the objective: Σ ρ |x|² over the rows of `side`."""
    del problem
    squares = np.einsum("rd,rd->r", table, table, dtype=np.float64)
    return float(side.ridges @ squares)
