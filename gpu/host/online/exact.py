"""Exact refits of single rows on the host: what ALS or NMF minimizes for one row, in float64 (see `gpu.online.exact`).

The system of a row is added up over its ratings in their order, `BATCH` at a time. So the result is the same, bit for
bit, with any other rows in the call and with any slices of the ratings (of a multiple of `BATCH`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpu.host.solve import BATCH, add_observations, solve, solve_nonnegative
from gpu.model import Model
from gpu.online.exact_rows import RatedRows, Read, Solved, Sums, n_fitting, parts_of
from gpu.refit_rules import PARALLEL_FROM, SMALLEST_RIDGE, TINY, Objective

ADDS_PER_SLICE = 2**23  # multiply-adds, one or two milliseconds
MOST_ITEMS = 32  # of a slice: listing the raters of an item takes time too
SWEEPS = 100  # that a row of NMF takes, more or less
RATINGS_AT_ONCE = 2**20  # without a budget; what is read of users for them is copied


class Fixed(NamedTuple):
    """The side that stands still. R rows.

    Attributes:
        factors (R, F), biases (R,): float32.
        gram: float64 (F, F), upper triangle of VᵀV over it, or zeros for explicit models.
        usual: float64 (F,), where implicit models keep a row that has dislikes alone; zeros for no such place.
    """

    factors: NDArray[np.float32]
    biases: NDArray[np.float32]
    gram: NDArray[np.float64]
    usual: NDArray[np.float64]


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def add_gram(gram: NDArray[np.float64], factors: NDArray[np.float32], sign: float, bound: float) -> None:
    """Add sign · Σ v vᵀ over `factors` (R, F) to the upper triangle of `gram` (F, F).

    Products are rounded to multiples of 2⁻⁵² of `bound`, a power of 2, so that sums below it are exact: in any order,
    and what was added can be taken away again without a trace.
    """
    grid = 1.5 * bound  # added and taken away again, it rounds
    n_factors = np.uintp(gram.shape[1])
    for row in range(len(factors)):
        one = factors[row]
        for a in range(n_factors):
            line, factor = gram[a], sign * np.float64(one[a])
            for c in range(a, n_factors):
                line[c] += (factor * np.float64(one[c]) + grid) - grid


@njit(cache=True, nogil=True)
def empty_system(fixed: Fixed, objective: Objective) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(matrix (D, D), right (D,)) before the first rating; D = F, or F + 1 with biases."""
    n_factors = fixed.factors.shape[1]
    n_terms = n_factors + 1 if objective.has_biases else n_factors
    matrix = np.zeros((n_terms, n_terms))
    matrix[:n_factors, :n_factors] = fixed.gram
    return matrix, np.zeros(n_terms)


@njit(cache=True, nogil=True)
def add_ratings(
    matrix: NDArray[np.float64],
    right: NDArray[np.float64],
    others: NDArray[np.int32],
    values: NDArray[np.float32],
    fixed: Fixed,
    objective: Objective,
) -> None:
    """Add Σ w z zᵀ and Σ y z over ratings of the rows `others` (B,) of the fixed side."""
    n_factors = fixed.factors.shape[1]
    observed, weights, targets = np.zeros((BATCH, len(right))), np.zeros(BATCH), np.zeros(BATCH)
    observed[:, n_factors:] = 1
    for first in range(0, len(others), BATCH):
        weights[:], targets[:] = 0, 0
        for b in range(min(BATCH, len(others) - first)):
            other, value = others[first + b], values[first + b]
            for f in range(n_factors):
                observed[b, f] = fixed.factors[other, f]
            if objective.is_nonnegative:
                targets[b] = value  # the sum over all pairs is in `gram` already
            elif objective.is_implicit:
                weights[b] = objective.alpha * abs(value)
                targets[b] = 1.0 + weights[b] if value > 0 else 0.0  # below 0 it is a dislike
            else:
                weights[b], targets[b] = 1.0, value - objective.mean - fixed.biases[other]
        add_observations(matrix, right, observed, weights, targets)


@njit(cache=True, nogil=True)
def keep_usual(right: NDArray[np.float64], fixed: Fixed, ridge: float) -> None:
    """Make `right`, zeros where nothing was liked, (VᵀV + ρ I) m: without dislikes, the solution is m = `fixed.usual`.

    Preferences of 0 alone have the solution 0, which ranks nothing. So a row without a like has the usual scores, which
    its dislikes pull down.
    """
    if right.any():
        return
    for a in range(len(right)):
        right[a] = ridge * fixed.usual[a]
        for c in range(len(right)):
            right[a] += fixed.gram[min(a, c), max(a, c)] * fixed.usual[c]


@njit(cache=True, nogil=True)
def solved(
    matrix: NDArray[np.float64], right: NDArray[np.float64], ridge: float, n_factors: int, objective: Objective
) -> NDArray[np.float64]:
    """[x; b] (F + 1,) of a system, which is overwritten; b = 0 where there are no biases.

    Args:
        ridge: ρ. Factors get `objective.unit` times as much.
    """
    diagonal = 0.0
    for a in range(len(right)):
        diagonal += matrix[a, a]
    ridge = max(ridge, SMALLEST_RIDGE * diagonal / len(right), TINY)
    for a in range(len(right)):
        matrix[a, a] += ridge * objective.unit if a < n_factors else ridge
    if objective.is_nonnegative:
        solve_nonnegative(matrix, right)
    else:
        solve(matrix, right)
    found = np.zeros(n_factors + 1)
    found[: len(right)] = right
    return found


@njit(cache=True, nogil=True)
def solve_rows(
    others: NDArray[np.int32],
    values: NDArray[np.float32],
    bounds: NDArray[np.int64],
    ridges: NDArray[np.float64],
    fixed: Fixed,
    objective: Objective,
    found: NDArray[np.float64],
) -> None:
    """Solve rows (B,) into `found` (B, F + 1); row b has the ratings `bounds[b]` to `bounds[b + 1]`, zeros if none."""
    for b in range(len(ridges)):
        part = slice(bounds[b], bounds[b + 1])
        found[b] = 0
        if bounds[b] < bounds[b + 1]:
            matrix, right = empty_system(fixed, objective)
            add_ratings(matrix, right, others[part], values[part], fixed, objective)
            if objective.is_implicit:
                keep_usual(right, fixed, ridges[b])
            found[b] = solved(matrix, right, ridges[b], fixed.factors.shape[1], objective)


@njit(cache=True, nogil=True, parallel=True)
def solve_rows_parallel(
    others: NDArray[np.int32],
    values: NDArray[np.float32],
    bounds: NDArray[np.int64],
    ridges: NDArray[np.float64],
    fixed: Fixed,
    objective: Objective,
    found: NDArray[np.float64],
) -> None:
    """`solve_rows` on all threads."""
    for b in prange(len(ridges)):
        solve_rows(others, values, bounds[b : b + 2], ridges[b : b + 1], fixed, objective, found[b : b + 1])


def per_slice(n_terms: int) -> int:
    """How many ratings, or rows of a sum, take a slice; a multiple of what is added in one go."""
    return max(ADDS_PER_SLICE * 2 // n_terms**2 // BATCH, 1) * BATCH


class Solver:
    """Rows of one model, solved on the host; see `gpu.online.exact_rows.Solver`."""

    most_items = MOST_ITEMS

    def __init__(self, model: Model, objective: Objective) -> None:
        """Sums have to be taken before the first row of an implicit model."""
        self._model, self._objective, self._n_factors = model, objective, model.params.width
        nothing = Sums(np.zeros((self._n_factors,) * 2), np.zeros(self._n_factors))
        self._of_items = self._of_users = nothing
        self.most_users = max(PARALLEL_FROM - 1, 1)  # threads would be woken for more

    def take_sums(self, of_items: Sums, of_users: Sums) -> None:
        """Read these sums, which may change in place."""
        self._of_items, self._of_users = of_items, of_users

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Nothing: the model itself is read."""

    def n_users(self, counts: NDArray[np.int64]) -> int:
        """How many of the first rows fit into a slice, at least one.

        Args:
            counts: ratings of each row, (B,).
        """
        return n_fitting(self._adds(counts), ADDS_PER_SLICE)

    n_items = n_users

    def users(self, rows: RatedRows) -> Solved:
        """Rows of users beside the items of the model; many at once on all threads."""
        return self._solved(rows, lambda others: (self._items(), others))

    def items(self, rows: RatedRows, read: Read) -> Solved:
        """Rows of items beside the users that are read, likewise."""

        def beside(others: NDArray[np.int32]) -> tuple[Fixed, NDArray[np.int32]]:
            return Fixed(*read(others), *self._of_users), np.arange(len(others), dtype=np.int32)

        return self._solved(rows, beside)

    def _items(self) -> Fixed:
        return Fixed(self._model.item_factors, self._model.item_bias, *self._of_items)

    def _adds(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Multiply-adds of rows that have `counts` (B,) ratings, about, (B,)."""
        if self._objective.is_nonnegative:
            return np.asarray(counts * self._n_factors + SWEEPS * self._n_factors**2)
        return np.asarray(counts * self._n_factors**2 // 2 + self._n_factors**3 // 6)

    def _solved(
        self, rows: RatedRows, beside: Callable[[NDArray[np.int32]], tuple[Fixed, NDArray[np.int32]]]
    ) -> Solved:
        """`beside(others)` are the side that stands still and where these rows lie in it."""
        n_rows = len(rows.ridges)
        found = np.zeros((n_rows, self._n_factors + 1))
        if n_rows == 1 or (n_rows < PARALLEL_FROM and self._adds(rows.counts).sum() > ADDS_PER_SLICE):
            for b in np.flatnonzero(rows.counts).tolist():
                found[b] = yield from self._solved_one(rows.part(b, b + 1), beside)
            return found
        solve_all = solve_rows_parallel if n_rows >= PARALLEL_FROM else solve_rows
        for first, last in parts_of(rows.counts, RATINGS_AT_ONCE):
            part = rows.part(first, last)
            fixed, others = beside(part.others)
            solve_all(others, part.values, part.bounds, part.ridges, fixed, self._objective, found[first:last])
        return found

    def _solved_one(
        self, row: RatedRows, beside: Callable[[NDArray[np.int32]], tuple[Fixed, NDArray[np.int32]]]
    ) -> Solved:
        """[x; b] (F + 1,) of one row; between slices the arrays of the model may move, but what they hold stays."""
        ridge = float(row.ridges[0])
        matrix, right = empty_system(beside(row.others[:0])[0], self._objective)
        n_ratings = per_slice(len(right))
        for first in range(0, len(row.others), n_ratings):
            if first:
                yield
            part = slice(first, first + n_ratings)
            fixed, others = beside(row.others[part])
            add_ratings(matrix, right, others, row.values[part], fixed, self._objective)
        if self._objective.is_implicit:
            keep_usual(right, fixed, ridge)
        found: NDArray[np.float64] = solved(matrix, right, ridge, self._n_factors, self._objective)
        return found
