"""`ExactRefits`: refits of models trained by ALS or NMF. A row gets its optimum while the other side stays fixed.

For ALS this is one row of a half-iteration: the system (A + ρ I) x = b of `gpu.als.trainer` over the ratings of the
row, in float64, by Cholesky. For NMF it is the non-negative least squares solution. A user is solved against the items
that the snapshot trained, over at most the newest 4,096 ratings. An item newer than the snapshot is solved against its
raters (`gpu.online.prolific`), and the ridge draws it toward its prior p: the right side is b + ρ p. Implicit models
need the sum over a whole side. That sum and the N of ρ count the rows that the snapshot trained.

A trained item of `als` is solved against users whom a stronger λ has shrunk. The users of the snapshot fit their old
ratings, noise included: a refit against them as they are learns this noise once more. A user over n usual ratings has
the system n G + ρ I, with G = Σ n_j v_j v_jᵀ / Σ n_j over the items, the mean of all n, and ρ = λ n + λ0. With σ λ it
would have been n G + (ρ + (σ − 1) λ n) I, and the user (n G + ρ I) (n G + (ρ + (σ − 1) λ n) I)⁻¹ u. So directions in
which ratings support little shrink, and those of the strongest taste hardly do (docs/decisions/0011).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import Backend
from gpu.data.decay import weights_in
from gpu.data.model import Model
from gpu.data.rating_table import RatingTable, times_of
from gpu.data.refit_rules import (
    MAX_RATINGS_OF_USERS,
    RIDGE_OF_TRAINED_ITEMS,
    SHRINKING,
    learned_values,
    objective_of,
)
from gpu.online.drift import AsTrained, Column
from gpu.online.exact_rows import RatedRows, Sums
from gpu.online.host import exact as on_host
from gpu.online.priors import Priors
from gpu.online.prolific import Prolific
from gpu.online.reading import ANONYMOUS, Reading

NUMBERS_PER_SLICE = 2**20  # numbers read in a slice of about a millisecond
BOUND_OF_USERS = 2.0**22  # sums over users are exact below it, so users can be subtracted; a user adds about 1 or less


class ExactRefits:
    """Solves rows of a model in place from all their ratings; see `gpu.online.model.Refits`.

    Attributes:
        gram: float64 (F, F), upper triangle of VᵀV over the trained items once `prepare` has run; None for explicit
            models.
        most_users, most_items: largest number of rows in a slice.
    """

    def __init__(
        self,
        model: Model,
        table: RatingTable,
        as_trained: AsTrained,
        prolific: Prolific,
        solver: on_host.Solver,
        priors: Priors | None = None,
    ) -> None:
        """`solver` is that of this model, from `solver_of`. `priors` are those of new items; None: all are 0."""
        self._model, self._table, self._as_trained, self._prolific = model, table, as_trained, prolific
        self._objective, self._solver, self._priors = objective_of(model), solver, priors
        self._half_life_days = model.params.half_life_days
        self.most_users, self.most_items = solver.most_users, solver.most_items
        if priors is not None:
            self.most_items = max(self.most_items, priors.most)
        self._n_users, self._n_items = int(model.user_trained.sum()), int(model.item_trained.sum())
        n_factors = model.params.width
        self._of_items, self._of_users = (Sums(np.zeros((n_factors,) * 2), np.zeros(n_factors)) for _ in range(2))
        self.gram = self._of_items.gram if self._objective.is_implicit else None
        self._shrinks = model.params.is_calibrated and not self._objective.is_implicit  # λ0 > 0
        self._shrinking: NDArray[np.float32] | None = None  # see `_shrinking_of_users`, once a trained item is refitted

    def prepare(self) -> Iterator[None]:
        """Sum up both sides of the snapshot, in slices; call it before the first refit."""
        if not self._objective.is_implicit:
            return
        model = self._model
        items, users = self._of_items, self._of_users
        bound = yield from bound_of(model.item_factors, model.item_trained)
        yield from add_side(items.gram, model.item_factors, model.item_trained, bound)
        yield from add_side(users.gram, model.user_factors, model.user_trained, BOUND_OF_USERS)
        if not self._objective.is_nonnegative:
            items.usual[:] = yield from usual_of(model.item_factors, model.item_trained)
        self._solver.take_sums(items, users)

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Do nothing: added rows were not trained, and nothing is drawn by key."""

    def readers_of(self, users: NDArray[np.int64]) -> Collection[int]:
        """No items: new items read only their raters, and sums over all users stay those of the snapshot."""
        del users
        return ()

    def forget(self, user: int) -> Collection[int]:
        """Subtract the user from the sums of implicit models; returns all new items, since they read these sums."""
        model = self._model
        if not self._objective.is_implicit or not model.user_trained[user]:
            return ()
        factors, *_ = self._as_trained.users(np.array([user]))
        on_host.add_gram(self._of_users.gram, factors, -1.0, BOUND_OF_USERS)
        self._solver.take_sums(self._of_items, self._of_users)
        self._n_users -= 1
        new: list[int] = np.flatnonzero(~model.item_trained & (self._table.item_counts > 0)).tolist()
        return new

    def fold_in(
        self, items: NDArray[np.int32], values: NDArray[np.float32], reading: Reading = ANONYMOUS
    ) -> tuple[NDArray[np.float64], float]:
        """([u; b], 0) of a user with these ratings; on the host, where one row takes less time than a device launch."""
        is_read, weights = self._model.item_trained[items], reading.weights
        if reading.is_read is not None:
            is_read &= reading.is_read
        bounds = np.array([0, np.count_nonzero(is_read)])
        weights = None if weights is None else weights[is_read]
        rows = self._learned(items[is_read], values[is_read], bounds, self._n_items, weights)
        solution, model = np.zeros((1, self._model.params.width + 1)), self._model
        fixed = on_host.Fixed(model.item_factors, model.item_bias, *self._of_items)
        on_host.solve_rows(rows, fixed, self._objective, solution)
        return solution[0], 0.0

    def first_users(self, users: NDArray[np.int64]) -> int:
        """How many of `users` (B,), from the first on, fit into a slice."""
        return self._solver.n_users(np.minimum(self._table.rows.lengths[users], MAX_RATINGS_OF_USERS))

    def first_items(self, items: NDArray[np.int64]) -> int:
        """How many of `items` (B,), from the first on, fit into a slice. Items without ratings are not solved."""
        counts = self._table.item_counts[items]
        rated = np.flatnonzero(counts)
        n_solved = self._solver.n_items(counts[rated[: self._solver.most_items]]) if len(rated) else 0
        return int(rated[n_solved]) if n_solved < len(rated) else len(items)

    def refit_users(self, users: NDArray[np.int64]) -> Generator[None, None, None]:
        """Refit `users` (B,) over those of their newest ratings that are of trained items.

        Works in slices, or on all threads for many users.
        """
        model, table = self._model, self._table
        items, values, bounds = on_host.newest_of_users(
            users, table.ordered_rows, MAX_RATINGS_OF_USERS, model.item_trained
        )
        weights = None
        if self._half_life_days is not None:
            owners = np.repeat(users, np.diff(bounds)).astype(np.int32)
            weights = self._weights(table.entries(items.astype(np.int64), owners))
        solution = yield from self._solver.users(self._learned(items, values, bounds, self._n_items, weights))
        model.user_factors[users], model.user_bias[users] = solution[:, :-1], solution[:, -1]

    def refit_items(self, items: NDArray[np.int64]) -> Generator[None, None, None]:
        """Refit new `items` (B,) over their raters, or set them to their priors, in slices like `refit_users`."""
        model, n_terms = self._model, self._model.params.width + 1
        priors = np.zeros((len(items), n_terms)) if self._priors is None else self._priors.of(items)
        solution, are_rated = priors.copy(), self._table.item_counts[items] > 0
        if are_rated.any():
            rated, priors = items[are_rated], priors[are_rated]
            raters, bounds = _joined([self._table.raters(item) for item in rated.tolist()])
            follows = self._prolific.are_followed(raters)
            owners = np.repeat(rated, np.diff(bounds))[follows]
            rows = self._raters_of(owners, raters[follows], _bounds_where(follows, bounds))
            if self._priors is not None:
                rows = rows._replace(priors=priors)
            solved = yield from self._solver.items(
                rows, lambda users: (model.user_factors[users], model.user_bias[users])
            )
            solution[are_rated] = np.where(rows.counts[:, None] > 0, solved, priors)
        model.item_factors[items], model.item_bias[items] = solution[:, :-1], solution[:, -1]

    def refit_trained(self, columns: Sequence[Column]) -> Generator[None, None, None]:
        """Refit trained items against the users of the snapshot, in slices like `refit_users`."""
        model, items = self._model, np.array([column.item for column in columns])
        raters, bounds = _joined([column.raters for column in columns])
        rows = self._raters_of(np.repeat(items, np.diff(bounds)), raters, bounds)
        if self._shrinks and self._shrinking is None:  # no trained item has changed yet
            self._shrinking = yield from self._shrinking_of_users()
        solution = yield from self._solver.items(rows, self._as_trained_users)
        if self._shrinks:  # of users √κ times as short, factors with κ ρ are √κ times as long as those with ρ
            solution[:, :-1] /= math.sqrt(RIDGE_OF_TRAINED_ITEMS)
        model.item_factors[items], model.item_bias[items] = solution[:, :-1], solution[:, -1]

    def _as_trained_users(self, users: NDArray[np.int32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        factors, biases, _ = self._as_trained.users(users)
        return (factors if self._shrinking is None else on_host.mapped(factors, self._shrinking)), biases

    def _shrinking_of_users(self) -> Generator[None, None, NDArray[np.float32]]:
        """The matrix (F, F) that shrinks users of the snapshot, over √κ, in slices; κ is `RIDGE_OF_TRAINED_ITEMS`.

        It reads the items of the snapshot alone, so rows that come between two slices do not matter, nor do users whom
        the service forgets.
        """
        model, objective, one = self._model, self._objective, np.eye(self._model.params.width)
        factors, is_trained = model.item_factors, model.item_trained  # between slices the model may get others
        counts, gram = np.where(is_trained, model.item_counts, 0), np.zeros_like(one)
        shares = np.sqrt(counts / max(counts.sum(), 1)).astype(np.float32)
        bound = yield from bound_of(factors, is_trained)
        yield from add_side(gram, factors, is_trained, bound, shares)
        n = model.calibration.density * self._n_items  # ratings of a user
        more = (SHRINKING - 1) * objective.regularization * n
        if not more:
            return np.asarray(one / math.sqrt(RIDGE_OF_TRAINED_ITEMS), dtype=np.float32)
        ridge = objective.unit * (objective.regularization * n + objective.prior + more)
        system = n * (gram + np.triu(gram, 1).T) + ridge * one
        shrinking = one - objective.unit * more * np.linalg.inv(system)
        return np.asarray(shrinking / math.sqrt(RIDGE_OF_TRAINED_ITEMS), dtype=np.float32)

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Copy the parameters of these items, which have changed, to the solver."""
        self._solver.refresh(items)

    def _raters_of(self, owners: NDArray[np.int64], raters: NDArray[np.int32], bounds: NDArray[np.int64]) -> RatedRows:
        """The rows of items with these raters; `owners` has the item of each rater."""
        entries = self._table.entries(owners, raters)
        return self._learned(raters, self._table.rows.values[entries], bounds, self._n_users, self._weights(entries))

    def _weights(self, entries: NDArray[np.int64]) -> NDArray[np.float32] | None:
        """Weights of `entries` (B,) of the table's rows; None without a half-life."""
        if self._half_life_days is None:
            return None
        seconds = times_of(self._table.timestamps[entries], self._table.positions[entries])
        return weights_in(self._model, seconds)

    def _learned(
        self,
        others: NDArray[np.int32],
        values: NDArray[np.float32],
        bounds: NDArray[np.int64],
        n_others: int,
        weights: NDArray[np.float32] | None = None,
    ) -> RatedRows:
        """The rows with the values that the model learns of ratings, see `learned_values`.

        Args:
            bounds: of the rows, as in `RatedRows`.
            n_others: rows of the other side that the snapshot trained.
            weights: of the ratings. Default: 1.
        """
        learned, n_entries = learned_values(self._model, values, weights)
        if (n_entries != 1).any():
            others, bounds = np.repeat(others, n_entries), _bounds_where(n_entries, bounds)
        n_unrated = n_others * self._model.params.is_calibrated  # N of ρ; see `gpu.als.trainer`
        return RatedRows(others, learned, bounds, self._objective.ridges(np.diff(bounds), n_unrated))


def solver_of(model: Model, backend: Backend) -> on_host.Solver | None:
    """The solver for rows of `model`, loaded on `backend`; None for models without exact refits. Any thread."""
    if model.params.refits != "exact":
        return None
    return backend.twin(on_host.Solver)(model, objective_of(model))


def _joined(columns: list[NDArray[np.int32]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """(the columns concatenated, bounds as in `RatedRows`)."""
    return np.concatenate(columns), np.append(0, np.cumsum([len(column) for column in columns]))


def _bounds_where(n_entries: NDArray[np.integer | np.bool_], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bounds of the rows once each rating has `n_entries` (N,) entries; a bool says whether it stays."""
    return np.asarray(np.append(0, np.cumsum(n_entries))[bounds])


@functools.cache
def threads() -> ThreadPoolExecutor:
    """Threads for work without the GIL, of all models. They end with the process.

    No generator may have threads of its own: the collector closes one that was dropped at a pause, perhaps within the
    start of another thread. To end its threads there would wait for that start, for ever.
    """
    return ThreadPoolExecutor(on_host.SUMMING_THREADS, "online")


def add_side(
    gram: NDArray[np.float64],
    factors: NDArray[np.float32],
    is_trained: NDArray[np.bool_],
    bound: float,
    shares: NDArray[np.float32] | None = None,
) -> Generator[None, None, None]:
    """Add Σ v vᵀ over the trained rows of `factors` (R, F) to the upper triangle of `gram`, in slices.

    Rows are multiplied by `shares` (R,) before, if these are given. Each thread sums up its part of a slice: the sums
    are exact, so their order does not matter.
    """
    n_rows, n_threads, pool = on_host.per_slice(len(gram)), on_host.SUMMING_THREADS, threads()

    def summed(first: int) -> NDArray[np.float64]:
        part, own = slice(first, first + n_rows), np.zeros_like(gram)
        rows = factors[part][is_trained[part]]
        on_host.add_gram(own, rows if shares is None else rows * shares[part][is_trained[part], None], 1.0, bound)
        return own

    for begin in range(0, len(factors), n_threads * n_rows):
        end = min(begin + n_threads * n_rows, len(factors))
        for own in pool.map(summed, range(begin, end, n_rows)):
            gram += own
        yield


def usual_of(factors: NDArray[np.float32], is_trained: NDArray[np.bool_]) -> Generator[None, None, NDArray[np.float64]]:
    """The user of rows without likes, float64 (F,), in slices: it ranks popular items first.

    It is Σ v over the trained rows of `factors` (R, F), as long as gives the best of them a score of 1, that of a like.
    """
    total, n_rows = np.zeros(factors.shape[1]), max(NUMBERS_PER_SLICE // factors.shape[1], 1)
    parts = [slice(first, first + n_rows) for first in range(0, len(factors), n_rows)]
    for part in parts:
        total += factors[part][is_trained[part]].sum(axis=0, dtype=np.float64)
        yield
    best = 0.0
    for part in parts:
        scores = (factors[part][is_trained[part]] * total).sum(axis=1)  # not by BLAS, whose bits depend on places
        best = max(best, float(scores.max(initial=0.0)))
        yield
    return total / best if best > 0 else total


def bound_of(factors: NDArray[np.float32], is_trained: NDArray[np.bool_]) -> Generator[None, None, float]:
    """A power of 2 above every sum of products over the trained rows of `factors` (R, F); in slices."""
    largest, n_rows = 0.0, max(NUMBERS_PER_SLICE // factors.shape[1], 1)
    for first in range(0, len(factors), n_rows):
        part = slice(first, first + n_rows)
        largest = max(largest, float(np.abs(factors[part][is_trained[part]]).max(initial=0.0)))
        yield
    return float(2.0 ** np.ceil(np.log2(np.count_nonzero(is_trained) * largest**2 + 1)))
