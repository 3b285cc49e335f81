"""`OnlineModel`: a model that follows the history ([004] Alg. 4, in closed form).

Its state is a pure function of the snapshot, the present history and the set of users touched since: every refit
starts from the snapshot's item side and reads whole rows of ratings. So the order of events, how they were batched,
deletes and replays leave no trace.

* A touched user: with the items fixed, u and b enter the score linearly. They solve
  (Σ z zᵀ + diag(λ n + λ0)) [u; b] = Σ y z over the ratings of trained items, z_j = [v_j; 1], y_j = r − μ − b̂_j − the
  neighbour terms. Implicit models: Newton steps of the cross-entropy, with s drawn negatives a rating.
* An item newer than the snapshot: neighbours by its present signature among all items, then v, b̂, w, c over all its
  raters in the same way. It follows whenever one of them changes.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from gpu import topn
from gpu.backend import HOST, Backend
from gpu.item_index import ItemIndex
from gpu.model import Model
from gpu.params import CulshParams
from gpu.rules import item_rules, user_rules
from gpu.signatures import Signatures
from gpu.table import RatingTable
from gpu.training import arrays_of

USERS_PER_SLICE = 1  # up to some milliseconds each
ITEMS_PER_SLICE = 1
PARALLEL_FROM = 64  # refits waiting, without a budget, from which threads are worth waking
ANONYMOUS_KEY = np.uint64(0)


class OnlineModel:
    """A model in the rows of a table, kept up with it.

    Attributes:
        model: the parameters; items known to the snapshot keep theirs, and so do users never touched.
        index: its item side, laid out for `gpu.topn`.
    """

    def __init__(
        self,
        model: Model,
        table: RatingTable,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
        backend: Backend = HOST,
    ) -> None:
        """Take over `model`, whose rows are those of `table`.

        Users and items that have ratings but were not trained are pending at once. Trained users whose ratings have
        changed since must be named with `touch`.

        Args:
            user_keys, item_keys: uint64, at least as many as rows; see `grow`.
        """
        self.model = model
        self._table = table
        self._user_rules, self._item_rules = user_rules(model.params), item_rules(model.params)
        self._primitives = backend.primitives("online"), backend.primitives("newcomers")
        model.grow(table.n_users, table.n_items)
        self._trained_items = _by_key(model.item_trained, item_keys)
        self._trained_users = _by_key(model.user_trained, user_keys)
        self._trained_user_keys = user_keys[self._trained_users]
        self._signatures = _signatures(model, table, user_keys, item_keys, backend)
        self._absent_from: dict[int, set[int]] = {}  # user -> new items they were drawn as a negative of
        self._absent: dict[int, NDArray[np.int64]] = {}  # new item -> those users
        self._user_keys, self._item_keys = user_keys, item_keys
        self._users = set(np.flatnonzero(~model.user_trained & (table.rows.lengths > 0)).tolist())
        self._items = set(np.flatnonzero(~model.item_trained & (table.item_counts > 0)).tolist())
        self.index = ItemIndex(model, backend)

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Follow the growth of the table and take the keys of all rows; before `note` of a new row."""
        self._user_keys, self._item_keys = user_keys, item_keys
        known = self.model.n_items
        if (self._table.n_users, self._table.n_items) != (self.model.n_users, known):
            self.model.grow(self._table.n_users, self._table.n_items)
        if self._signatures is not None:
            self._signatures.grow(user_keys, item_keys)
        if self.model.n_items > known:
            self.index.refresh(np.zeros(0, dtype=np.int64))

    def touch(self, users: NDArray[np.integer]) -> None:
        """Mark users whose ratings are not those the snapshot was trained on."""
        self._users.update(users.tolist())

    def note(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        old: NDArray[np.float32],
        new: NDArray[np.float32],
    ) -> None:
        """Mark what changes of the table affect; cheap. Must follow each `RatingTable.apply` before the next `settle`.

        Args:
            users, items: rows, (B,), in the order applied.
            old, new: rating before and after, NaN for none, (B,).
        """
        self._users.update(users.tolist())
        self._items.update(items[~self.model.item_trained[items]].tolist())
        if self._signatures is not None:
            self._signatures.note(users, items, old, new)

    def forget(self, user: int, items: NDArray[np.integer], values: NDArray[np.float32]) -> None:
        """Make a user, whom the table has dropped with these ratings, as if never seen."""
        model = self.model
        if self._signatures is not None:
            self._signatures.forget(user, items, values)
        self._items.update(items[~model.item_trained[items]].tolist())
        self._items.update(self._absent_from.get(user, ()))
        self._users.discard(user)
        model.user_factors[user], model.user_bias[user], model.user_baseline[user] = 0, 0, 0
        model.user_trained[user] = False
        stays = self._trained_users != user
        self._trained_users, self._trained_user_keys = self._trained_users[stays], self._trained_user_keys[stays]

    def settle(self, budget_s: float | None = None) -> bool:
        """Refit what is pending: users, then lists of new items, then new items; in slices of a few milliseconds.

        Args:
            budget_s: stop after the slice in which it runs out, the first one at the earliest. None: finish, on all
                threads where there is much to do.

        Returns:
            Whether nothing is pending. The state then depends on nothing but what the module says.
        """
        deadline = np.inf if budget_s is None else time.perf_counter() + budget_s
        while self._step(is_hurried=budget_s is not None):
            if time.perf_counter() >= deadline:
                break
        return not self._users and not self._items and (self._signatures is None or self._signatures.is_settled)

    def fold_in(self, items: NDArray[np.integer], values: NDArray[np.float32]) -> topn.Users:
        """Parameters of somebody with these ratings, of whom nothing is kept.

        Args:
            items: item rows, ascending, (B,).
            values: their ratings, (B,).
        """
        online, arrays = self._primitives[0], arrays_of(self.model)
        rated, given = items.astype(np.int32), values.astype(np.float32)
        line = np.full(self.model.n_items, online.UNRATED)
        found, baseline = online.fold_in(
            ANONYMOUS_KEY, rated, rated, given, line, arrays, self._trained_items, self.model.item_trained,
            self._item_keys, self._user_rules,
        )  # fmt: skip
        found = found.astype(np.float32)
        return topn.Users(found[None, :-1], found[-1:], np.array([baseline], dtype=np.float32))

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """Share of equal signature bits of `item` and each of `others`, float32 (B,); 0 for models without hashing."""
        if self._signatures is None:
            return np.zeros(len(others), dtype=np.float32)
        return self._signatures.agreement(item, others)

    def _step(self, *, is_hurried: bool) -> bool:
        """Do one slice of what is pending; false where nothing was."""
        if self._users:
            self._refit_users(_taken(self._users, USERS_PER_SLICE if is_hurried else len(self._users)))
        elif self._signatures is not None and self._signatures.step():
            self._items |= self._signatures.relisted
            self._signatures.relisted.clear()
        elif self._items:
            self._refit_items(_taken(self._items, ITEMS_PER_SLICE if is_hurried else len(self._items)))
        else:
            return False
        return True

    def _refit_users(self, users: NDArray[np.int64]) -> None:
        online, model = self._primitives[0], self.model
        refit = online.refit_users_parallel if len(users) >= PARALLEL_FROM else online.refit_users
        refit(
            users, self._user_keys[users], self._table.rows, self._table.positions, arrays_of(model),
            self._trained_items, model.item_trained, self._item_keys, self._user_rules,
        )  # fmt: skip
        for user in users.tolist():
            items = self._table.row(user)[0]
            self._items.update(items[~model.item_trained[items]].tolist())
            self._items.update(self._absent_from.get(user, ()))

    def _refit_items(self, items: NDArray[np.int64]) -> None:
        newcomers, arrays = self._primitives[1], arrays_of(self.model)
        pairs = [self._observed(item) for item in items.tolist()]
        raters, absent = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        refit = newcomers.refit_items_parallel if len(items) >= PARALLEL_FROM else newcomers.refit_items
        rater_bounds, absent_bounds = _bounds(raters), _bounds(absent)
        refit(
            items, np.concatenate(raters), rater_bounds, np.concatenate(absent), absent_bounds, self._table.rows,
            arrays, self._item_rules,
        )  # fmt: skip
        self.index.refresh(items)

    def _observed(self, item: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """(raters, absent users) that a new item learns from; remembers whose absence it follows."""
        newcomers, rules, key = self._primitives[1], self._item_rules, self._item_keys[item]
        for user in self._absent.pop(item, np.zeros(0, dtype=np.int64)).tolist():
            self._absent_from[user].discard(item)
        raters = self._table.raters(item)
        read = newcomers.sampled(key, raters, self._user_keys, rules)
        if not self.model.is_implicit:
            return read, np.zeros(0, dtype=np.int64)
        pool = self._trained_users, self._trained_user_keys
        self._absent[item] = newcomers.draw_absences(key, read, raters, self._user_keys, *pool, rules)
        for user in self._absent[item].tolist():
            self._absent_from.setdefault(user, set()).add(item)
        return read, self._absent[item]


def _signatures(
    model: Model, table: RatingTable, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64], backend: Backend
) -> Signatures | None:
    """What makes lists for new items; None where the model has no neighbours or they were not found by hashing."""
    if not isinstance(model.params, CulshParams) or not model.neighbours.shape[1] or not model.projections.shape[1]:
        return None
    return Signatures(model, model.params, table, user_keys, item_keys, backend)


def _by_key(mask: NDArray[np.bool_], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Rows where `mask` holds, by key: an order that does not depend on when the rows were given out."""
    rows = np.flatnonzero(mask)
    return rows[np.argsort(keys[rows], kind="stable")]


def _taken(pending: set[int], n: int) -> NDArray[np.int64]:
    """Take up to `n` rows out of `pending`; any, their order leaves no trace."""
    return np.array([pending.pop() for _ in range(min(n, len(pending)))], dtype=np.int64)


def _bounds(parts: list[NDArray[np.int32]] | list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum([len(part) for part in parts])).astype(np.int64)
