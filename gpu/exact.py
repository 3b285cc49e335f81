"""`ExactRefits`: refits of models trained by ALS or NMF. A row gets what is best for it while the other side stands.

For ALS that is what a half-iteration of the training gives: the system (A + ρ I) x = b of `gpu.als` over the ratings of
the row, in float64, by Cholesky. For NMF it is the least squares solution without a number below 0. A user is solved
against the items that the snapshot trained, over the newest 4,096 ratings where there are more; an item newer than the
snapshot against its raters (`gpu.prolific`). Implicit models need the sum over a whole side, which stays as the
snapshot has it, and so do ρ's N: the rows that it trained.

A refit costs n·D²/2 multiply-adds for n ratings; those of rows with very many are spread over several slices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.backend import HOST, Backend
from gpu.drift import AsTrained, Column
from gpu.model import Model
from gpu.params import AlsImplicitParams, AlsParams, NmfParams
from gpu.prolific import Prolific
from gpu.rules import MAX_RATINGS_OF_USERS, PARALLEL_FROM, learned_values, objective_of
from gpu.table import RatingTable

NUMBERS_PER_SLICE = 2**20  # looked at, about a millisecond
ADDS_PER_SLICE = 2**23  # multiply-adds, one or two milliseconds
BATCH = 4  # slices are a multiple of it: what kernels add in one go
BOUND_OF_USERS = 2.0**22  # sums over users are exact below it, whoever is forgotten; they are about 1 a user or less
Ratings = tuple[NDArray[np.int32], NDArray[np.float32]]  # rows of the other side, and what was given


class ExactRefits:
    """Solves rows of a model in place from all their ratings; see `gpu.online.Refits`.

    Attributes:
        gram: float64 (F, F), upper triangle of VᵀV over the trained items once `prepare` has run; None for explicit
            models.
    """

    def __init__(
        self,
        model: Model,
        params: AlsParams | AlsImplicitParams | NmfParams,
        table: RatingTable,
        as_trained: AsTrained,
        prolific: Prolific,
        backend: Backend,
    ) -> None:
        self._as_trained, self._prolific = as_trained, prolific
        self._model, self._table, self._kernels = model, table, backend.primitives("exact")
        self._objective = objective_of(model)
        self._n_users, self._n_items = int(model.user_trained.sum()), int(model.item_trained.sum())
        self._user_gram, self._item_gram = np.zeros((2, params.n_factors, params.n_factors))
        self._usual = np.zeros(params.n_factors)
        self._nowhere = np.zeros(params.n_factors)
        self.gram = self._item_gram if self._objective.is_implicit else None

    def prepare(self) -> Iterator[None]:
        """Sum up both sides as the snapshot has them, in slices; before the first refit."""
        if not self._objective.is_implicit:
            return
        model = self._model
        bound = yield from bound_of(model.item_factors, model.item_trained)
        yield from add_side(self._kernels, self._item_gram, model.item_factors, model.item_trained, bound)
        yield from add_side(self._kernels, self._user_gram, model.user_factors, model.user_trained, BOUND_OF_USERS)
        if not self._objective.is_nonnegative:
            self._usual += yield from sum_of(model.item_factors, model.item_trained)

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Nothing: rows that are added were not trained, and nothing is drawn by key."""

    def readers_of(self, user: int) -> Collection[int]:
        """None: new items read their raters only, and sums over all users stay as the snapshot has them."""
        del user
        return ()

    def forget(self, user: int) -> Collection[int]:
        """Take the user out of the sums of implicit models; all new items, which read them."""
        model = self._model
        if not self._objective.is_implicit or not model.user_trained[user]:
            return ()
        factors, *_ = self._as_trained.users(np.array([user]))
        self._kernels.add_gram(self._user_gram, factors, -1.0, BOUND_OF_USERS)
        self._n_users -= 1
        new: list[int] = np.flatnonzero(~model.item_trained & (self._table.item_counts > 0)).tolist()
        return new

    def fold_in(self, items: NDArray[np.int32], values: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
        """([u; b], 0) of somebody with these ratings."""
        others, given = self._learned(items, values, self._model.item_trained[items])
        bounds, found = np.array([0, len(others)]), np.zeros((1, self._model.params.width + 1))
        ridges = self._objective.ridges(np.diff(bounds), self._n_items)
        self._kernels.solve_rows(others, given, bounds, ridges, self._items(), self._objective, found)
        return found[0], 0.0

    def refit_users(self, users: NDArray[np.int64]) -> Generator[None, None, None]:
        """Refit `users` (B,) over their newest ratings, of these over those of trained items.

        In slices, or on all threads where there are many.
        """
        model = self._model
        rated = [self._newest(user) for user in users.tolist()]
        rows = [self._learned(items, values, model.item_trained[items]) for items, values in rated]
        found = yield from self._solved(rows, self._n_items, self._items)
        model.user_factors[users], model.user_bias[users] = found[:, :-1], found[:, -1]

    def refit_items(self, items: NDArray[np.int64]) -> Generator[None, None, None]:
        """Refit new `items` (B,) over their raters, as `refit_users`."""
        model, table = self._model, self._table
        raters = [self._prolific.others(table.raters(item)) for item in items.tolist()]
        rated = [(users, table.values(item, users)) for item, users in zip(items.tolist(), raters, strict=True)]
        rows = [self._learned(raters, values, np.ones(len(raters), dtype=np.bool_)) for raters, values in rated]
        found = yield from self._solved(rows, self._n_users, self._users)
        model.item_factors[items], model.item_bias[items] = found[:, :-1], found[:, -1]

    def refit_trained(self, columns: Sequence[Column]) -> Generator[None, None, None]:
        """Refit trained items, as `refit_users`, beside users as the snapshot has them."""
        model, bounds = self._model, np.append(0, np.cumsum([len(column.raters) for column in columns]))
        factors, biases, _ = self._as_trained.users(np.concatenate([column.raters for column in columns]))
        users, rows = self._kernels.Fixed(factors, biases, self._user_gram, self._nowhere), []
        for column, first, last in zip(columns, bounds, bounds[1:], strict=False):
            values = self._table.values(column.item, column.raters)
            rows.append(self._learned(np.arange(first, last, dtype=np.int32), values, np.ones(len(values), np.bool_)))
        found = yield from self._solved(rows, self._n_users, lambda: users)
        items = [column.item for column in columns]
        model.item_factors[items], model.item_bias[items] = found[:, :-1], found[:, -1]

    def _newest(self, user: int) -> Ratings:
        """What a user is refitted from: of very many ratings the newest, as in `gpu.sampled`."""
        items, values, _, positions = self._table.row(user)
        newest: Ratings = HOST.primitives("online").newest(items, values, positions, MAX_RATINGS_OF_USERS)
        return newest

    def _learned(self, others: NDArray[np.int32], values: NDArray[np.float32], is_known: NDArray[np.bool_]) -> Ratings:
        """What is learned of ratings: signals of implicit ALS, for which a 0 says as much as no rating."""
        learned, counts = learned_values(self._model, values)
        counts &= is_known
        return others[counts], learned[counts]

    def _solved(
        self, rows: list[Ratings], n_others: int, fixed: Callable[[], Any]
    ) -> Generator[None, None, NDArray[np.float64]]:
        """[x; b] (B, F + 1) of rows with these ratings, where the side `fixed()` of `n_others` rows stands still."""
        counts = np.array([len(others) for others, _ in rows])
        ridges = self._objective.ridges(counts, n_others)
        found = np.zeros((len(rows), self._model.params.width + 1))
        if len(rows) >= PARALLEL_FROM:
            others, values = (np.concatenate(column) for column in zip(*rows, strict=True))
            bounds = np.append(0, np.cumsum(counts))
            self._kernels.solve_rows_parallel(others, values, bounds, ridges, fixed(), self._objective, found)
            return found
        for b in np.flatnonzero(counts).tolist():
            found[b] = yield from self._solved_one(*rows[b], ridges[b], fixed)
        return found

    def _solved_one(
        self, others: NDArray[np.int32], values: NDArray[np.float32], ridge: float, fixed: Callable[[], Any]
    ) -> Generator[None, None, NDArray[np.float64]]:
        """`_solved` for one row; between slices the arrays of the model may move, but what they hold stays."""
        matrix, right = self._kernels.empty_system(fixed(), self._objective)
        n_ratings = per_slice(len(right))
        for first in range(0, len(others), n_ratings):
            if first:
                yield
            part = slice(first, first + n_ratings)
            self._kernels.add_ratings(matrix, right, others[part], values[part], fixed(), self._objective)
        if self._objective.is_implicit:
            self._kernels.keep_usual(right, fixed(), ridge)
        found: NDArray[np.float64] = self._kernels.solved(
            matrix, right, ridge, self._model.params.width, self._objective
        )
        return found

    def _items(self) -> Any:
        return self._kernels.Fixed(self._model.item_factors, self._model.item_bias, self._item_gram, self._usual)

    def _users(self) -> Any:
        return self._kernels.Fixed(self._model.user_factors, self._model.user_bias, self._user_gram, self._nowhere)


def add_side(
    kernels: ModuleType, gram: NDArray[np.float64], factors: NDArray[np.float32], is_trained: NDArray[np.bool_],
    bound: float,
) -> Iterator[None]:  # fmt: skip
    """Add Σ v vᵀ over the trained rows of `factors` (R, F) to the upper triangle of `gram`, in slices."""
    n_rows = per_slice(len(gram))
    for first in range(0, len(factors), n_rows):
        part = slice(first, first + n_rows)
        kernels.add_gram(gram, factors[part][is_trained[part]], 1.0, bound)
        yield


def sum_of(factors: NDArray[np.float32], is_trained: NDArray[np.bool_]) -> Generator[None, None, NDArray[np.float64]]:
    """Σ v over the trained rows of `factors` (R, F), float64 (F,), in slices; popular items score highest with it."""
    total, n_rows = np.zeros(factors.shape[1]), max(NUMBERS_PER_SLICE // factors.shape[1], 1)
    for first in range(0, len(factors), n_rows):
        part = slice(first, first + n_rows)
        total += factors[part][is_trained[part]].sum(axis=0, dtype=np.float64)
        yield
    return total


def per_slice(n_terms: int) -> int:
    """How many ratings, or rows of a sum, take a slice; a multiple of what is added in one go."""
    return max(ADDS_PER_SLICE * 2 // n_terms**2 // BATCH, 1) * BATCH


def bound_of(factors: NDArray[np.float32], is_trained: NDArray[np.bool_]) -> Generator[None, None, float]:
    """A power of 2 above every sum of products over the trained rows of `factors` (R, F); in slices."""
    largest, n_rows = 0.0, max(NUMBERS_PER_SLICE // factors.shape[1], 1)
    for first in range(0, len(factors), n_rows):
        part = slice(first, first + n_rows)
        largest = max(largest, float(np.abs(factors[part][is_trained[part]]).max(initial=0.0)))
        yield
    return float(2.0 ** np.ceil(np.log2(np.count_nonzero(is_trained) * largest**2 + 1)))
