"""`SampledRefits`: refits of models trained by stochastic gradient descent ([004] Alg. 4, in closed form).

* A user: with the items fixed, u and b enter the score linearly. They solve
  (Σ z zᵀ + diag(λ n + λ0) + P) [u; b] = Σ y z over the ratings of trained items, z_j = [v_j; 1], y_j = r − μ − b̂_j −
  the neighbor terms; P, of u alone, says where users are expected (`gpu.refit_rules`). Implicit models, without P:
  Newton steps of the cross-entropy, with s drawn negatives a rating.
* An item newer than the snapshot: v, b̂, w, c over its raters, or a sample of them, in the same way. Trained items whose
  ratings have changed too (`gpu.online.drift`).

ESGD trains beside fixed biases; a refit solves b with u all the same, with λ = 0 for b. Without P, the error for users
a model had not seen, with 3 / 10 / 30 / all of their ratings (MovieLens-1M), is about .948 / .917 / .889 / .848; with
b = mean(r − μ) and a ridge for u as in training 1.084 / .978 / .921 / .857, with b shrunk .984 / .961 / .917 / .856.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from gpu.backend import Backend
from gpu.host.online.drift import picked
from gpu.model import Model
from gpu.online import exact
from gpu.online.drift import AsTrained, Column
from gpu.online.prolific import Prolific
from gpu.online.rating_table import RatingTable
from gpu.param_kinds import GradientParams
from gpu.ratings import Rows
from gpu.refit_rules import PARALLEL_FROM, beside_items, item_rules, trained_item_rules, user_rules
from gpu.views import arrays_of

ANONYMOUS_KEY = np.uint64(0)
SORTED_AT_ONCE = 50_000  # rows: a few milliseconds
POLL_S = 0.001
ITEMS_AT_ONCE = 256  # trained ones: with 1,024 raters each and 32 neighbors they take 70 MB
NOBODY = np.zeros(0, dtype=np.int64)


class SampledRefits:
    """Solves rows of a model in place from samples of their ratings; see `gpu.online.host_model.Refits`.

    Attributes:
        user_rules: constants of users, with P once `prepare` has run.
    """

    gram: NDArray[np.float64] | None = None
    most_users = most_items = 1  # up to some milliseconds each

    def __init__(
        self,
        model: Model,
        params: GradientParams,
        table: RatingTable,
        as_trained: AsTrained,
        prolific: Prolific,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
        backend: Backend,
    ) -> None:
        self._model, self._params, self._table, self._as_trained = model, params, table, as_trained
        self._prolific = prolific
        unit = model.calibration.unit
        self.user_rules, self._item_rules = user_rules(params, unit), item_rules(params, unit)
        self._trained_item_rules = trained_item_rules(params, unit)
        self._of_users, self._of_items = (
            backend.primitives("online.refit_users"),
            backend.primitives("online.refit_items"),
        )
        self._trained_items = self._trained_users = np.zeros(0, dtype=np.int64)  # by key, once `prepare` has run
        self._trained_user_keys = np.zeros(0, dtype=np.uint64)
        self._user_keys, self._item_keys = user_keys, item_keys
        self._absent_from: dict[int, set[int]] = {}  # user -> new items they were drawn as a negative of
        self._absent: dict[int, NDArray[np.int64]] = {}  # new item -> those users

    def prepare(self) -> Iterator[None]:
        """Put the trained rows in order of their keys, and learn from the items where users are expected; in slices.

        The second is for models of ratings alone.
        """
        model, is_trained = self._model, self._model.item_trained
        factors = model.item_factors  # as long as `is_trained`: the model may grow between two slices
        self._trained_items = yield from _by_key(is_trained, self._item_keys)
        self._trained_users = yield from _by_key(model.user_trained, self._user_keys)
        self._trained_user_keys = self._user_keys[self._trained_users]
        if model.is_implicit:
            return
        gram = np.zeros((model.params.width, model.params.width))
        bound = yield from exact.bound_of(factors, is_trained)
        yield from exact.add_side(gram, factors, is_trained, bound)
        self.user_rules = beside_items(
            self.user_rules, self._params, gram, int(is_trained.sum()), model.calibration.unit
        )

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Take the keys of all rows."""
        self._user_keys, self._item_keys = user_keys, item_keys

    def readers_of(self, users: NDArray[np.int64]) -> Collection[int]:
        """New items that `users` were drawn as negatives of."""
        return set().union(*(self._absent_from.get(user, ()) for user in users.tolist()))

    def first_users(self, users: NDArray[np.int64]) -> int:
        """All: a slice takes one."""
        return len(users)

    def first_items(self, items: NDArray[np.int64]) -> int:
        """All: a slice takes one."""
        return len(items)

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Nothing: the model itself is read."""

    def forget(self, user: int) -> Collection[int]:
        """Draw the user no more; new items that did."""
        stays = self._trained_users != user
        self._trained_users, self._trained_user_keys = self._trained_users[stays], self._trained_user_keys[stays]
        return self._absent_from.get(user, ())

    def fold_in(self, items: NDArray[np.int32], values: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
        """([u; b], b̄_i) of somebody with these ratings, items ascending."""
        line = np.full(self._model.n_items, self._of_users.UNRATED)
        found: tuple[NDArray[np.float64], float] = self._of_users.fold_in(
            ANONYMOUS_KEY, items, items, values, line, arrays_of(self._model), self._trained_items,
            self._model.item_trained, self._item_keys, self.user_rules,
        )  # fmt: skip
        return found

    def refit_users(self, users: NDArray[np.int64]) -> Iterator[None]:
        """Refit `users` (B,) at once."""
        kernels = self._of_users
        refit = kernels.refit_users_parallel if len(users) >= PARALLEL_FROM else kernels.refit_users
        refit(
            users, self._user_keys[users], self._table.rows, self._table.positions, arrays_of(self._model),
            self._trained_items, self._model.item_trained, self._item_keys, self.user_rules,
        )  # fmt: skip
        return iter(())

    def refit_items(self, items: NDArray[np.int64]) -> Iterator[None]:
        """Refit new `items` (B,) at once."""
        kernels = self._of_items
        pairs = [self._observed(item) for item in items.tolist()]
        raters, absent = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        refit = kernels.refit_items_parallel if len(items) >= PARALLEL_FROM else kernels.refit_items
        refit(
            items, np.concatenate(raters), _bounds(raters), np.concatenate(absent), _bounds(absent), self._table.rows,
            arrays_of(self._model), self._item_rules,
        )  # fmt: skip
        return iter(())

    def refit_trained(self, columns: Sequence[Column]) -> Iterator[None]:
        """Refit trained items beside users as the snapshot has them, some at a time."""
        for first in range(0, len(columns), ITEMS_AT_ONCE):
            if first:
                yield
            self._refit_columns(columns[first : first + ITEMS_AT_ONCE])

    def _refit_columns(self, columns: Sequence[Column]) -> None:
        """`refit_trained` of few enough: what their raters gave, and gave to neighbors, is copied."""
        kernels, items = self._of_items, [column.item for column in columns]
        raters = [
            kernels.sampled(self._item_keys[column.item], column.raters, self._user_keys, self._trained_item_rules)
            for column in columns
        ]
        factors, biases, baselines = self._as_trained.users(np.concatenate(raters))
        arrays = arrays_of(self._model)._replace(user_factors=factors, user_bias=biases, user_baseline=baselines)
        rows = _joined([self._read(*pair) for pair in zip(columns, raters, strict=True)])
        refit = kernels.refit_items_parallel if len(columns) >= PARALLEL_FROM else kernels.refit_items
        refit(
            np.array(items), np.arange(len(biases), dtype=np.int32), _bounds(raters), NOBODY,
            _bounds([NOBODY] * len(items)), rows, arrays, self._trained_item_rules,
        )  # fmt: skip

    def _read(self, column: Column, raters: NDArray[np.int32]) -> Rows:
        """What `raters` gave the item and its neighbors, as rows of their own."""
        neighbors = self._model.neighbors[column.item]
        items = np.unique(np.append(neighbors[neighbors >= 0], column.item)).astype(np.int64)
        return picked(items, raters, self._table.rows, self._table.positions, column.upto)

    def _observed(self, item: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """(raters, absent users) that a new item learns from; remembers whose absence it follows."""
        kernels, rules, key = self._of_items, self._item_rules, self._item_keys[item]
        for user in self._absent.pop(item, np.zeros(0, dtype=np.int64)).tolist():
            self._absent_from[user].discard(item)
        raters = self._table.raters(item)
        read = kernels.sampled(key, self._prolific.others(raters), self._user_keys, rules)
        if not self._model.is_implicit:
            return read, np.zeros(0, dtype=np.int64)
        pool = self._trained_users, self._trained_user_keys
        likers = kernels.likers(item, read, self._table.rows, np.float32(self._model.middle))
        self._absent[item] = kernels.draw_absences(key, likers, raters, self._user_keys, *pool, rules)
        for user in self._absent[item].tolist():
            self._absent_from.setdefault(user, set()).add(item)
        return read, self._absent[item]


def _by_key(mask: NDArray[np.bool_], keys: NDArray[np.uint64]) -> Generator[None, None, NDArray[np.int64]]:
    """Rows where `mask` holds, by key: an order that does not depend on when the rows were given out.

    Many are sorted in a thread of their own, a tenth of a second for a million, and each slice only looks for its end.
    """
    rows = np.flatnonzero(mask)
    keys = keys[rows]
    if len(rows) < SORTED_AT_ONCE:
        return rows[np.argsort(keys, kind="stable")]
    with ThreadPoolExecutor(1) as pool:
        order = pool.submit(np.argsort, keys, kind="stable")
        while not order.done():
            time.sleep(POLL_S)
            yield
    found: NDArray[np.int64] = rows[order.result()]
    return found


def _joined(parts: list[Rows]) -> Rows:
    """Rows one below the other, their ratings one behind the other."""
    n_before = np.append(0, np.cumsum([len(part.items) for part in parts]))
    starts = np.concatenate([part.starts + n for part, n in zip(parts, n_before.tolist(), strict=False)])
    lengths, items, values = (np.concatenate([part[column] for part in parts]) for column in (1, 2, 3))
    return Rows(starts, lengths, items, values)


def _bounds(parts: list[NDArray[np.int32]] | list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum([len(part) for part in parts])).astype(np.int64)
