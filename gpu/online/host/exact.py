"""Exact refits of single rows on the host: the optimum of ALS or NMF for one row, in float64 (see `gpu.online.exact`).

The system of a row is summed over its ratings in their order, `BATCH` at a time. So the result has the same bits with
any other rows in the call, and with any slices of the ratings whose size is a multiple of `BATCH`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np
from numba import config
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.base.host.forms import serial_and_parallel
from gpu.data.host_arena import Int
from gpu.data.host_rating_table import OrderedRows
from gpu.data.host_solve import BATCH, LinearSystem, add_observations, solve, solve_nonnegative
from gpu.data.model import Model
from gpu.data.refit_rules import PARALLEL_FROM, SMALLEST_RIDGE, TINY, Objective
from gpu.online.exact_rows import RatedRows, Read, Solved, Sums, n_fitting, parts_of

SUMMING_THREADS = min(vars(config)["NUMBA_NUM_THREADS"], 8)  # that sum up the rows of a model
ADDS_PER_SLICE = 2**23  # multiply-adds of a slice; one or two milliseconds
MOST_ITEMS = 32  # items of a slice, at most: listing the raters of an item takes time too
SWEEPS = 100  # sweeps; a typical row of NMF
BEFORE_ALL = np.int64(-(2**63))  # below every position
RATINGS_AT_ONCE = 2**20  # ratings of a call without a budget; it copies the factors of their users


class Fixed(NamedTuple):
    """The fixed side, with R rows.

    Attributes:
        factors (R, F), biases (R,): float32.
        gram: float64 (F, F), upper triangle of VᵀV over the whole side; zeros for explicit models.
        usual: float64 (F,), the starting vector of implicit models for a row that has only dislikes; zeros for none.
    """

    factors: Annotated[NDArray[np.float32], 2]
    biases: NDArray[np.float32]
    gram: Annotated[NDArray[np.float64], 2]
    usual: NDArray[np.float64]


@called_for(Use.GRAMS)
@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def add_gram(
    gram: Annotated[NDArray[np.float64], 2], factors: Annotated[NDArray[np.float32], 2], sign: float, bound: float
) -> None:
    """Add sign · Σ v vᵀ over `factors` (R, F) to the upper triangle of `gram` (F, F).

    Products are rounded to multiples of 2⁻⁵² · `bound`, which is a power of 2. So sums below `bound` are exact in
    any order, and a row can be subtracted again without a trace.
    """
    grid = 1.5 * bound  # (x + grid) − grid rounds x to a multiple of 2⁻⁵² · bound
    n_factors = np.uintp(gram.shape[1])
    for row in range(len(factors)):
        one = factors[row]
        for a in range(n_factors):
            line, factor = gram[a], sign * np.float64(one[a])
            for c in range(a, n_factors):
                line[c] += (factor * np.float64(one[c]) + grid) - grid


@called_for(Use.EXACT_EXPLICIT)
@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def mapped(
    rows: Annotated[NDArray[np.float32], 2], matrix: Annotated[NDArray[np.float32], 2]
) -> Annotated[NDArray[np.float32], 2]:
    """`rows` (R, F) times `matrix` (F, F). The bits of a row do not depend on the others, as they would with BLAS."""
    product, n_factors = np.zeros_like(rows), np.uintp(rows.shape[1])
    one, two, three, four = np.uintp(1), np.uintp(2), np.uintp(3), np.uintp(4)
    n_whole = n_factors // four * four
    for row in range(len(rows)):
        to, by = product[row], rows[row]
        for a in range(np.uintp(0), n_whole, four):  # four lines, so that each sum is loaded a fourth as often
            w, x, y, z = by[a], by[a + one], by[a + two], by[a + three]
            lines = matrix[a], matrix[a + one], matrix[a + two], matrix[a + three]
            for c in range(n_factors):
                to[c] = to[c] + w * lines[0][c] + x * lines[1][c] + y * lines[2][c] + z * lines[3][c]
        for a in range(n_whole, n_factors):
            w, line = by[a], matrix[a]
            for c in range(n_factors):
                to[c] += w * line[c]
    return product


@called_for(Use.EXACT)
@njit(cache=True, nogil=True)
def empty_system(fixed: Fixed, objective: Objective) -> LinearSystem:
    """The system of a row before the first rating; D = F, or F + 1 with biases."""
    n_factors = fixed.factors.shape[1]
    n_terms = n_factors + 1 if objective.has_biases else n_factors
    matrix = np.zeros((n_terms, n_terms))
    matrix[:n_factors, :n_factors] = fixed.gram
    return LinearSystem(matrix, np.zeros(n_terms))


@called_for(Use.EXACT)
@njit(cache=True, nogil=True)
def add_ratings(
    system: LinearSystem, others: NDArray[np.int32], values: NDArray[np.float32], fixed: Fixed, objective: Objective
) -> None:
    """Add Σ w z zᵀ to the matrix and Σ y z to the right side, over ratings (B,) of the rows `others` of `fixed`."""
    n_factors, (matrix, right) = fixed.factors.shape[1], system
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


@called_for(Use.EXACT_IMPLICIT)
@njit(cache=True, nogil=True)
def keep_usual(right: NDArray[np.float64], fixed: Fixed, ridge: float) -> None:
    """Set `right` of a row without likes to (VᵀV + ρ I) m, where m is `fixed.usual`.

    With only preferences of 0 the solution would be 0, which gives no order. With m, popular items come first, and the
    row's dislikes lower the scores of items like them.
    """
    if right.any():
        return
    for a in range(len(right)):
        right[a] = ridge * fixed.usual[a]
        for c in range(len(right)):
            right[a] += fixed.gram[min(a, c), max(a, c)] * fixed.usual[c]


@called_for(Use.EXACT)
@njit(cache=True, nogil=True)
def solved(
    matrix: Annotated[NDArray[np.float64], 2],
    right: NDArray[np.float64],
    ridge: float,
    prior: NDArray[np.float64],
    n_factors: int,
    objective: Objective,
) -> NDArray[np.float64]:
    """[x; b] (F + 1,) that solves a system, which is overwritten; b is 0 without biases.

    Args:
        ridge: ρ; the ridge of factors is `objective.unit` times as large.
        prior: [p; b] (F + 1,), toward which the ridge draws the row; empty for 0.
    """
    diagonal = 0.0
    for a in range(len(right)):
        diagonal += matrix[a, a]
    ridge = max(ridge, SMALLEST_RIDGE * diagonal / len(right), TINY)
    for a in range(len(right)):
        own = ridge * objective.unit if a < n_factors else ridge
        matrix[a, a] += own
        if len(prior):
            right[a] += own * prior[a]
    if objective.is_nonnegative:
        solve_nonnegative(matrix, right)
    else:
        solve(matrix, right)
    solution = np.zeros(n_factors + 1)
    solution[: len(right)] = right
    return solution


@called_for(Use.EXACT)
@njit(cache=True, nogil=True)
def newest_of_users(
    users: NDArray[np.int64], rows: OrderedRows, most: Int, is_read: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
    """The ratings of items with `is_read` (I,) among the `most` newest ratings of each user.

    Args:
        users: rows of users, (B,).

    Returns:
        (items int32 (N,), values float32 (N,), bounds int64 (B + 1,)): user b has the ratings `bounds[b]` to
        `bounds[b + 1]`, ascending by item.
    """
    n_ratings = 0
    for user in users:
        n_ratings += rows.lengths[user]
    items, values = np.empty(n_ratings, dtype=np.int32), np.empty(n_ratings, dtype=np.float32)
    bounds, n = np.zeros(len(users) + 1, dtype=np.int64), 0
    for b in range(len(users)):
        first, length = rows.starts[users[b]], rows.lengths[users[b]]
        oldest = BEFORE_ALL
        if length > most:
            oldest = np.partition(rows.positions[first : first + length], length - most)[length - most]
        for position in range(first, first + length):
            if is_read[rows.items[position]] and rows.positions[position] >= oldest:
                items[n], values[n] = rows.items[position], rows.values[position]
                n += 1
        bounds[b + 1] = n
    return items[:n], values[:n], bounds


def _solve_rows(
    rows: RatedRows, fixed: Fixed, objective: Objective, solutions: Annotated[NDArray[np.float64], 2]
) -> None:
    """Write [x; b] of all rows to `solutions` (B, F + 1), zeros for rows without ratings.

    Args:
        rows: `others` are rows of `fixed`.
    """
    for b in prange(len(rows.ridges)):
        own = slice(rows.bounds[b], rows.bounds[b + 1])
        solutions[b] = 0
        if own.start < own.stop:
            matrix, right = empty_system(fixed, objective)
            add_ratings(LinearSystem(matrix, right), rows.others[own], rows.values[own], fixed, objective)
            if objective.is_implicit:
                keep_usual(right, fixed, rows.ridges[b])
            prior = rows.priors[b : b + 1].ravel()
            solutions[b] = solved(matrix, right, rows.ridges[b], prior, fixed.factors.shape[1], objective)


solve_rows, solve_rows_parallel = serial_and_parallel(_solve_rows)
called_for(Use.EXACT)(solve_rows)


def per_slice(n_terms: int) -> int:
    """Ratings, or rows of a sum, in a slice: a multiple of `BATCH`."""
    return max(ADDS_PER_SLICE * 2 // n_terms**2 // BATCH, 1) * BATCH


class Solver:
    """Solves rows of one model.

    Attributes:
        most_users, most_items: largest number of rows in a slice.
    """

    most_items = MOST_ITEMS

    def __init__(self, model: Model, objective: Objective) -> None:
        """Implicit models need `take_sums` before the first row."""
        self._model, self._objective, self._n_factors = model, objective, model.params.width
        nothing = Sums(np.zeros((self._n_factors,) * 2), np.zeros(self._n_factors))
        self._of_items = self._of_users = nothing
        self.most_users = max(PARALLEL_FROM - 1, 1)  # more would wake threads

    def take_sums(self, of_items: Sums, of_users: Sums) -> None:
        """Use these sums, which may change in place; call it before the first row, and when there are others."""
        self._of_items, self._of_users = of_items, of_users

    def refresh(self, items: NDArray[np.int64]) -> None:
        """`items` (B,) have changed: the solver reads the model itself, and a device copies them."""

    def n_users(self, counts: NDArray[np.int64]) -> int:
        """How many of the first users, or items, fit into a slice, at least one.

        Args:
            counts: ratings of each row, (B,).
        """
        return n_fitting(self._adds(counts), ADDS_PER_SLICE)

    n_items = n_users

    def users(self, rows: RatedRows) -> Solved:
        """[u; b] (B, F + 1) of users against the trained items; zeros without ratings. Many rows run on all threads."""
        model, sums = self._model, self._of_items
        return self._solved(rows, lambda others: (Fixed(model.item_factors, model.item_bias, *sums), others))

    def items(self, rows: RatedRows, read: Read) -> Solved:
        """[v; b] (B, F + 1) of items against users; many rows run on all threads.

        Args:
            read: (factors (n, F), biases (n,)) of n of `rows.others`; the same for a user in every slice.
        """

        def beside(others: NDArray[np.int32]) -> tuple[Fixed, NDArray[np.int32]]:
            return Fixed(*read(others), *self._of_users), np.arange(len(others), dtype=np.int32)

        return self._solved(rows, beside)

    def _adds(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Approximate multiply-adds of rows with `counts` (B,) ratings, (B,)."""
        if self._objective.is_nonnegative:
            return np.asarray(counts * self._n_factors + SWEEPS * self._n_factors**2)
        return np.asarray(counts * self._n_factors**2 // 2 + self._n_factors**3 // 6)

    def _solved(
        self, rows: RatedRows, beside: Callable[[NDArray[np.int32]], tuple[Fixed, NDArray[np.int32]]]
    ) -> Solved:
        """Solve all rows; `beside(others)` returns the fixed side and the positions of the rows `others` in it."""
        n_rows = len(rows.ridges)
        solutions = np.zeros((n_rows, self._n_factors + 1))
        if n_rows == 1 or (n_rows < PARALLEL_FROM and self._adds(rows.counts).sum() > ADDS_PER_SLICE):
            for b in np.flatnonzero(rows.counts).tolist():
                solutions[b] = yield from self._solved_one(rows.part(b, b + 1), beside)
            return solutions
        solve_all = solve_rows_parallel if n_rows >= PARALLEL_FROM else solve_rows
        for first, last in parts_of(rows.counts, RATINGS_AT_ONCE):
            part = rows.part(first, last)
            fixed, others = beside(part.others)
            solve_all(part._replace(others=others), fixed, self._objective, solutions[first:last])
        return solutions

    def _solved_one(
        self, row: RatedRows, beside: Callable[[NDArray[np.int32]], tuple[Fixed, NDArray[np.int32]]]
    ) -> Solved:
        """[x; b] (F + 1,) of one row, in slices; between them the model's arrays may move, but their values stay."""
        ridge = float(row.ridges[0])
        system: LinearSystem = empty_system(beside(row.others[:0])[0], self._objective)
        n_ratings = per_slice(len(system.right))
        for first in range(0, len(row.others), n_ratings):
            if first:
                yield
            part = slice(first, first + n_ratings)
            fixed, others = beside(row.others[part])
            add_ratings(system, others, row.values[part], fixed, self._objective)
        if self._objective.is_implicit:
            keep_usual(system.right, fixed, ridge)
        solution: NDArray[np.float64] = solved(*system, ridge, row.priors.ravel(), self._n_factors, self._objective)
        return solution
