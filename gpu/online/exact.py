"""`ExactRefits`: refits of models trained by ALS or NMF. A row gets what is best for it while the other side stands.

For ALS that is what a half-iteration of the training gives: the system (A + ρ I) x = b of `gpu.training.als` over the
ratings of the row, in float64, by Cholesky. For NMF it is the least squares solution without a number below 0. A user
is solved against the items that the snapshot trained, over the newest 4,096 ratings where there are more; an item
newer than the snapshot against its raters (`gpu.online.prolific`). Implicit models need the sum over a whole side,
which stays as the snapshot has it, and so do ρ's N: the rows that it trained.

A refit costs n·D²/2 multiply-adds for n ratings; those of rows with very many are spread over several slices.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.backend import Backend
from gpu.host.online import exact as on_host
from gpu.host.online.gather_rows import newest_of_users, values_of_pairs
from gpu.model import Model
from gpu.online.drift import AsTrained, Column
from gpu.online.exact_rows import RatedRows, Solver, Sums
from gpu.online.prolific import Prolific
from gpu.online.rating_table import RatingTable
from gpu.params import AlsImplicitParams, AlsParams, NmfParams
from gpu.refit_rules import MAX_RATINGS_OF_USERS, learned_values, objective_of

NUMBERS_PER_SLICE = 2**20  # looked at, about a millisecond
BOUND_OF_USERS = 2.0**22  # sums over users are exact below it, whoever is forgotten; they are about 1 a user or less
ExactParams = AlsParams | AlsImplicitParams | NmfParams


class ExactRefits:
    """Solves rows of a model in place from all their ratings; see `gpu.online.host_model.Refits`.

    Attributes:
        gram: float64 (F, F), upper triangle of VᵀV over the trained items once `prepare` has run; None for explicit
            models.
        most_users, most_items: rows that a slice takes at most.
    """

    def __init__(
        self,
        model: Model,
        table: RatingTable,
        as_trained: AsTrained,
        prolific: Prolific,
        solver: Solver,
    ) -> None:
        """`solver`: of this model, from `solver_of`."""
        self._model, self._table, self._as_trained, self._prolific = model, table, as_trained, prolific
        self._objective, self._solver = objective_of(model), solver
        self.most_users, self.most_items = solver.most_users, solver.most_items
        self._n_users, self._n_items = int(model.user_trained.sum()), int(model.item_trained.sum())
        n_factors = model.params.width
        self._of_items, self._of_users = (Sums(np.zeros((n_factors,) * 2), np.zeros(n_factors)) for _ in range(2))
        self.gram = self._of_items.gram if self._objective.is_implicit else None

    def prepare(self) -> Iterator[None]:
        """Sum up both sides as the snapshot has them, in slices; before the first refit."""
        if not self._objective.is_implicit:
            return
        model = self._model
        items, users = self._of_items, self._of_users
        bound = yield from bound_of(model.item_factors, model.item_trained)
        yield from add_side(items.gram, model.item_factors, model.item_trained, bound)
        yield from add_side(users.gram, model.user_factors, model.user_trained, BOUND_OF_USERS)
        if not self._objective.is_nonnegative:
            usual = yield from sum_of(model.item_factors, model.item_trained)
            items.usual[:] = usual
        self._solver.take_sums(items, users)

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Nothing: rows that are added were not trained, and nothing is drawn by key."""

    def readers_of(self, users: NDArray[np.int64]) -> Collection[int]:
        """None: new items read their raters only, and sums over all users stay as the snapshot has them."""
        del users
        return ()

    def forget(self, user: int) -> Collection[int]:
        """Take the user out of the sums of implicit models; all new items, which read them."""
        model = self._model
        if not self._objective.is_implicit or not model.user_trained[user]:
            return ()
        factors, *_ = self._as_trained.users(np.array([user]))
        on_host.add_gram(self._of_users.gram, factors, -1.0, BOUND_OF_USERS)
        self._solver.take_sums(self._of_items, self._of_users)
        self._n_users -= 1
        new: list[int] = np.flatnonzero(~model.item_trained & (self._table.item_counts > 0)).tolist()
        return new

    def fold_in(self, items: NDArray[np.int32], values: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
        """([u; b], 0) of somebody with these ratings; on the host, where one row takes less than asking a device."""
        known = self._model.item_trained[items]
        rows = self._learned(items[known], values[known], np.array([0, np.count_nonzero(known)]), self._n_items)
        found, model = np.zeros((1, self._model.params.width + 1)), self._model
        beside = on_host.Fixed(model.item_factors, model.item_bias, *self._of_items)
        on_host.solve_rows(*rows, beside, self._objective, found)
        return found[0], 0.0

    def first_users(self, users: NDArray[np.int64]) -> int:
        """How many of `users` (B,) a slice takes."""
        return self._solver.n_users(np.minimum(self._table.rows.lengths[users], MAX_RATINGS_OF_USERS))

    def first_items(self, items: NDArray[np.int64]) -> int:
        """How many of `items` (B,) a slice takes."""
        return self._solver.n_items(self._table.item_counts[items])

    def refit_users(self, users: NDArray[np.int64]) -> Generator[None, None, None]:
        """Refit `users` (B,) over their newest ratings, of these over those of trained items.

        In slices, or on all threads where there are many.
        """
        model, table = self._model, self._table
        rated = newest_of_users(users, table.rows, table.positions, MAX_RATINGS_OF_USERS, model.item_trained)
        found = yield from self._solver.users(self._learned(*rated, self._n_items))
        model.user_factors[users], model.user_bias[users] = found[:, :-1], found[:, -1]

    def refit_items(self, items: NDArray[np.int64]) -> Generator[None, None, None]:
        """Refit new `items` (B,) over their raters, as `refit_users`."""
        model, (raters, bounds) = self._model, _joined([self._table.raters(item) for item in items.tolist()])
        follows = self._prolific.are_followed(raters)
        owners = np.repeat(items, np.diff(bounds))
        raters, owners, bounds = raters[follows], owners[follows], _bounds_where(follows, bounds)
        rows = self._learned(raters, values_of_pairs(owners, raters, self._table.rows), bounds, self._n_users)
        found = yield from self._solver.items(rows, lambda users: (model.user_factors[users], model.user_bias[users]))
        model.item_factors[items], model.item_bias[items] = found[:, :-1], found[:, -1]

    def refit_trained(self, columns: Sequence[Column]) -> Generator[None, None, None]:
        """Refit trained items, as `refit_users`, beside users as the snapshot has them."""
        model, items = self._model, np.array([column.item for column in columns])
        raters, bounds = _joined([column.raters for column in columns])
        values = values_of_pairs(np.repeat(items, np.diff(bounds)), raters, self._table.rows)
        rows = self._learned(raters, values, bounds, self._n_users)
        found = yield from self._solver.items(rows, self._as_trained_users)
        model.item_factors[items], model.item_bias[items] = found[:, :-1], found[:, -1]

    def _as_trained_users(self, users: NDArray[np.int32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        factors, biases, _ = self._as_trained.users(users)
        return factors, biases

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Read these items, which have changed, where rows are solved."""
        self._solver.refresh(items)

    def _learned(
        self, others: NDArray[np.int32], values: NDArray[np.float32], bounds: NDArray[np.int64], n_others: int
    ) -> RatedRows:
        """What is learned of ratings: signals of implicit ALS, for which a 0 says as much as no rating.

        Args:
            bounds: of the rows, as in `RatedRows`.
            n_others: rows of the other side that the snapshot trained.
        """
        learned, says = learned_values(self._model, values)
        if not says.all():
            others, learned, bounds = others[says], learned[says], _bounds_where(says, bounds)
        return RatedRows(others, learned, bounds, self._objective.ridges(np.diff(bounds), n_others))


def solver_of(model: Model, backend: Backend) -> Solver | None:
    """What solves rows of `model` on `backend`, placed there; None where they are not solved exactly. Any thread."""
    if model.params.refits != "exact":
        return None
    solver: Solver = backend.primitives("online.exact").Solver(model, objective_of(model))
    return solver


def _joined(columns: list[NDArray[np.int32]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """(one after the other, bounds as in `RatedRows`)."""
    return np.concatenate(columns), np.append(0, np.cumsum([len(column) for column in columns]))


def _bounds_where(stays: NDArray[np.bool_], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bounds of rows of which only ratings stay for which `stays` (N,) holds."""
    return np.asarray(np.append(0, np.cumsum(stays))[bounds])


def add_side(
    gram: NDArray[np.float64], factors: NDArray[np.float32], is_trained: NDArray[np.bool_], bound: float
) -> Iterator[None]:
    """Add Σ v vᵀ over the trained rows of `factors` (R, F) to the upper triangle of `gram`, in slices."""
    n_rows = on_host.per_slice(len(gram))
    for first in range(0, len(factors), n_rows):
        part = slice(first, first + n_rows)
        on_host.add_gram(gram, factors[part][is_trained[part]], 1.0, bound)
        yield


def sum_of(factors: NDArray[np.float32], is_trained: NDArray[np.bool_]) -> Generator[None, None, NDArray[np.float64]]:
    """Σ v over the trained rows of `factors` (R, F), float64 (F,), in slices; popular items score highest with it."""
    total, n_rows = np.zeros(factors.shape[1]), max(NUMBERS_PER_SLICE // factors.shape[1], 1)
    for first in range(0, len(factors), n_rows):
        part = slice(first, first + n_rows)
        total += factors[part][is_trained[part]].sum(axis=0, dtype=np.float64)
        yield
    return total


def bound_of(factors: NDArray[np.float32], is_trained: NDArray[np.bool_]) -> Generator[None, None, float]:
    """A power of 2 above every sum of products over the trained rows of `factors` (R, F); in slices."""
    largest, n_rows = 0.0, max(NUMBERS_PER_SLICE // factors.shape[1], 1)
    for first in range(0, len(factors), n_rows):
        part = slice(first, first + n_rows)
        largest = max(largest, float(np.abs(factors[part][is_trained[part]]).max(initial=0.0)))
        yield
    return float(2.0 ** np.ceil(np.log2(np.count_nonzero(is_trained) * largest**2 + 1)))
