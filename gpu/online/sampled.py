"""`SampledRefits`: refits of models trained by stochastic gradient descent ([004] Alg. 4, in closed form).

* A user: with the items fixed, u and b enter the score linearly. They solve
  (Σ z zᵀ + diag(λ n + λ0) + P) [u; b] = Σ y z over the ratings of trained items. Here z_j = [v_j; 1], and y_j =
  r − μ − b̂_j − the neighbor terms. P applies to u alone and is its prior (`gpu.data.refit_rules`). Implicit models
  have no P: they take Newton steps of the cross-entropy, with s drawn negatives a rating.
* An item newer than the snapshot: v, b̂, w and c are solved in the same way over its raters, or a sample of them. So are
  trained items whose ratings have changed (`gpu.online.drift`).

ESGD trains with fixed biases, but a refit solves b together with u, with λ = 0 for b. Figures without P follow: RMSE
for users unseen in training, with 3 / 10 / 30 / all of their ratings (MovieLens-1M). It is about .948 / .917 / .889 /
.848. With b = mean(r − μ) and the ridge of training for u it is 1.084 / .978 / .921 / .857, and with b shrunk .984 /
.961 / .917 / .856.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.data.decay import weights_in
from gpu.data.model import Model
from gpu.data.param_kinds import GradientParams
from gpu.data.rating_table import RatingTable, times_of
from gpu.data.ratings import Rows
from gpu.data.refit_rules import PARALLEL_FROM, Rules, beside_items, item_rules, trained_item_rules, user_rules
from gpu.data.views import NO_WEIGHTS, Arrays, arrays_of
from gpu.online import exact
from gpu.online.drift import AsTrained, Column
from gpu.online.host import refit_items, refit_users
from gpu.online.host.drift import picked
from gpu.online.host.refit_items import UserGroups, UserPool
from gpu.online.host.refit_users import ItemPool, UserRow, UserWeights
from gpu.online.prolific import Prolific
from gpu.online.reading import ANONYMOUS, Reading

SORTED_AT_ONCE = 50_000  # rows; sorting them takes a few milliseconds
POLL_S = 0.001  # seconds
ITEMS_AT_ONCE = 256  # trained items; with 1,024 raters each and 32 neighbors they take 70 MB
NO_ROWS = np.zeros(0, dtype=np.int64)
Observed = tuple[NDArray[Any], NDArray[np.float32]]  # users, and what they weigh


class SampledRefits:
    """Solves rows of a model in place from samples of their ratings; see `gpu.online.model.Refits`.

    Attributes:
        user_rules: constants for users, with P once `prepare` has run.
    """

    gram: NDArray[np.float64] | None = None
    most_users = most_items = 1  # one row takes up to some milliseconds

    def __init__(
        self,
        model: Model,
        params: GradientParams,
        table: RatingTable,
        as_trained: AsTrained,
        prolific: Prolific,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
    ) -> None:
        self._model, self._params, self._table, self._as_trained = model, params, table, as_trained
        self._prolific = prolific
        unit = model.calibration.unit
        self.user_rules, self._item_rules = user_rules(params, unit), item_rules(params, unit)
        self._trained_item_rules = trained_item_rules(params, unit)
        self._trained_items = NO_ROWS  # sorted by key, filled by `prepare`; so is the pool of users
        self._user_pool = UserPool(NO_ROWS, np.zeros(0, dtype=np.uint64))
        self._user_keys, self._item_keys = user_keys, item_keys
        self._absent_from: dict[int, set[int]] = {}  # user -> new items they were drawn as a negative of
        self._absent: dict[int, NDArray[np.int64]] = {}  # new item -> those users

    def prepare(self) -> Iterator[None]:
        """Sort the trained rows by key and, for models of ratings, compute the prior P of users; in slices."""
        model, is_trained = self._model, self._model.item_trained
        factors = model.item_factors  # as long as `is_trained`: the model may grow between two slices
        self._trained_items = yield from _by_key(is_trained, self._item_keys)
        trained_users = yield from _by_key(model.user_trained, self._user_keys)
        self._user_pool = UserPool(trained_users, self._user_keys[trained_users])
        if model.is_implicit:
            return
        gram = np.zeros((model.params.width, model.params.width))
        bound = yield from exact.bound_of(factors, is_trained)
        yield from exact.add_side(gram, factors, is_trained, bound)
        self.user_rules = beside_items(
            self.user_rules, self._params, gram, int(is_trained.sum()), model.calibration.unit
        )

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Store the keys of all rows."""
        self._user_keys, self._item_keys = user_keys, item_keys

    def readers_of(self, users: NDArray[np.int64]) -> Collection[int]:
        """New items that `users` were drawn as negatives of."""
        return set().union(*(self._absent_from.get(user, ()) for user in users.tolist()))

    def first_users(self, users: NDArray[np.int64]) -> int:
        """All, since `most_users` is 1."""
        return len(users)

    def first_items(self, items: NDArray[np.int64]) -> int:
        """All, since `most_items` is 1."""
        return len(items)

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Do nothing: refits read the model itself."""

    def forget(self, user: int) -> Collection[int]:
        """Remove the user from the draws; returns new items that had drawn the user."""
        users, keys = self._user_pool
        self._user_pool = UserPool(users[users != user], keys[users != user])
        return self._absent_from.get(user, ())

    def fold_in(
        self, items: NDArray[np.int32], values: NDArray[np.float32], reading: Reading = ANONYMOUS
    ) -> tuple[NDArray[np.float64], float]:
        """([u; b], b̄_i) of a user with these ratings, items ascending."""
        line = np.full(self._model.n_items, refit_users.UNRATED)
        read = (items, values) if reading.is_read is None else (items[reading.is_read], values[reading.is_read])
        weights = NO_WEIGHTS if reading.weights is None else reading.weights
        if len(weights) and reading.is_read is not None:
            weights = weights[reading.is_read]
        row = UserRow(reading.key, items, *read, weights)
        arrays = arrays_of(self._model)
        user: tuple[NDArray[np.float64], float]
        user = refit_users.fold_in(row, line, arrays, self._item_pool, self.user_rules)
        return user

    def refit_users(self, users: NDArray[np.int64]) -> Iterator[None]:
        """Refit `users` (B,) in one slice."""
        refit = refit_users.refit_users_parallel if len(users) >= PARALLEL_FROM else refit_users.refit_users
        arrays, keys = arrays_of(self._model), self._user_keys[users]
        weights = UserWeights(NO_WEIGHTS, np.zeros(len(users) + 1, dtype=np.int64))
        if self._params.half_life_days is not None:
            starts, lengths = self._table.rows.starts[users], self._table.rows.lengths[users]
            bounds = np.append(0, np.cumsum(lengths))
            entries = np.repeat(starts - bounds[:-1], lengths) + np.arange(bounds[-1])
            weights = UserWeights(self._weights(entries), bounds)
        refit(users, keys, self._table.ordered_rows, arrays, self._item_pool, self.user_rules, weights)
        return iter(())

    def _weights_of(self, item: int, users: NDArray[np.int32]) -> NDArray[np.float32]:
        """What the ratings of an item by `users` (B,) weigh, float32 (B,); empty without a half-life."""
        if self._params.half_life_days is None:
            return NO_WEIGHTS
        return self._weights(self._table.entries(np.full(len(users), item), users))

    def _weights(self, entries: NDArray[np.int64]) -> NDArray[np.float32]:
        """What `entries` (B,) of the table's rows weigh, for a model with a half-life."""
        table = self._table
        weights = weights_in(self._model, times_of(table.timestamps[entries], table.positions[entries]))
        return NO_WEIGHTS if weights is None else weights

    def refit_items(self, items: NDArray[np.int64]) -> Iterator[None]:
        """Refit new `items` (B,) in one slice."""
        raters, absent = zip(*(self._observed(item) for item in items.tolist()), strict=True)
        groups = _groups(*zip(*raters, strict=True)), _groups(*zip(*absent, strict=True))
        self._solve_items(items, *groups, self._table.rows, arrays_of(self._model), self._item_rules)
        return iter(())

    def refit_trained(self, columns: Sequence[Column]) -> Iterator[None]:
        """Refit trained items against the users of the snapshot, `ITEMS_AT_ONCE` in a slice."""
        rules, keys, rows = self._trained_item_rules, self._user_keys, self._table.ordered_rows
        for first in range(0, len(columns), ITEMS_AT_ONCE):
            if first:
                yield
            batch = columns[first : first + ITEMS_AT_ONCE]
            raters: list[NDArray[np.int32]] = []
            weights: list[NDArray[np.float32]] = []
            copies: list[Rows] = []  # the raters' ratings of an item and its neighbors
            for item, all_raters, upto in batch:
                read = refit_items.sampled(self._item_keys[item], all_raters, keys, rules)
                neighbors = self._model.neighbors[item]
                items = np.unique(np.append(neighbors[neighbors >= 0], item)).astype(np.int64)
                raters.append(read)
                weights.append(self._weights_of(item, read))
                copies.append(picked(items, read, rows, upto))
            factors, biases, baselines = self._as_trained.users(np.concatenate(raters))
            arrays = arrays_of(self._model)._replace(user_factors=factors, user_bias=biases, user_baseline=baselines)
            groups = _groups(raters, weights)._replace(users=np.arange(len(biases), dtype=np.int32))
            absent = _groups([NO_ROWS] * len(batch), [NO_WEIGHTS] * len(batch))
            n_before = np.append(0, np.cumsum([len(copy.items) for copy in copies])).tolist()
            starts = np.concatenate([copy.starts + n for copy, n in zip(copies, n_before, strict=False)])
            joined = Rows(starts, *(np.concatenate([copy[column] for copy in copies]) for column in (1, 2, 3)))
            trained = np.array([column.item for column in batch])
            self._solve_items(trained, groups, absent, joined, arrays, rules)

    def _solve_items(
        self, items: NDArray[np.int64], raters: UserGroups, absent: UserGroups, rows: Rows, arrays: Arrays, rules: Rules
    ) -> None:
        """Refit `items` (B,), on all threads if there are many."""
        refit = refit_items.refit_items_parallel if len(items) >= PARALLEL_FROM else refit_items.refit_items
        refit(items, raters, absent, rows, arrays, rules)

    @property
    def _item_pool(self) -> ItemPool:
        return ItemPool(self._trained_items, self._model.item_trained, self._item_keys)

    def _observed(self, item: int) -> tuple[Observed, Observed]:
        """(raters, absent users) that a new item learns from; records the absent users in `_absent_from`."""
        rules, key = self._item_rules, self._item_keys[item]
        for user in self._absent.pop(item, NO_ROWS).tolist():
            self._absent_from[user].discard(item)
        raters = self._table.raters(item)
        read = refit_items.sampled(key, self._prolific.others(raters), self._user_keys, rules)
        observed = read, self._weights_of(item, read)
        if not self._model.is_implicit:
            return observed, (NO_ROWS, NO_WEIGHTS)
        sides = np.float32(self._model.middle), np.float32(self._model.lift)
        likers = refit_items.likers(item, read, self._table.rows, *sides)
        absent, drawn_for = refit_items.draw_absences(key, likers, raters, self._user_keys, self._user_pool, rules)
        self._absent[item] = absent
        for user in absent.tolist():
            self._absent_from.setdefault(user, set()).add(item)
        return observed, (absent, self._weights_of(item, likers[drawn_for]))  # they weigh as much as their likers


def _by_key(mask: NDArray[np.bool_], keys: NDArray[np.uint64]) -> Generator[None, None, NDArray[np.int64]]:
    """Rows where `mask` holds, sorted by key, so that the order does not depend on when rows were assigned.

    Another thread sorts many rows (a tenth of a second for a million); each slice only polls it.
    """
    rows = np.flatnonzero(mask)
    keys = keys[rows]
    if len(rows) < SORTED_AT_ONCE:
        return rows[np.argsort(keys, kind="stable")]
    order = exact.threads().submit(np.argsort, keys, kind="stable")
    while not order.done():
        time.sleep(POLL_S)
        yield
    by_key: NDArray[np.int64] = rows[order.result()]
    return by_key


def _groups(users: Sequence[NDArray[Any]], weights: Sequence[NDArray[np.float32]]) -> UserGroups:
    """The users of each item, B arrays, and what they weigh."""
    bounds = np.append(0, np.cumsum([len(group) for group in users])).astype(np.int64)
    return UserGroups(np.concatenate(users), bounds, np.concatenate(weights))
