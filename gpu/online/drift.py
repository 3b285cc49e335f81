"""Decides which trained items are refitted, and from which ratings.

A trained item is refitted once its ratings differ from those of the snapshot by a share, `SHARE`, and again whenever
their number has grown by that share. In between, new ratings change only their users. So a rating causes the same work,
however popular its item is.

An item reads only users of the snapshot, with their parameters from the snapshot, and the ratings that had arrived when
its last share was complete. Users are refitted over the present items. So there is no circular dependency: the state is
a function of the snapshot and the present ratings in the order of their positions. Deleted ratings and forgotten users
leave no trace.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.changes import Changes
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.data.rating_table import RatingTable
from gpu.online.host import drift as kernels

SHARE = 0.1  # of an item's ratings; docs/algorithms.md has test RMSE and work for other shares
USERS_PER_SLICE = 4096
OF_USERS = "user_factors", "user_bias", "user_baseline"
OF_ITEMS = "item_factors", "item_bias", "explicit_weights", "implicit_weights", "item_counts"


class Column(NamedTuple):
    """The ratings that a trained item learns from.

    Attributes:
        item: its row.
        raters: int32 (B,), trained users, ascending.
        upto: position of the last rating that is read, also of the raters' ratings of other items.
    """

    item: int
    raters: NDArray[np.int32]
    upto: int


class AsTrained:
    """Rows of the snapshot, copied before their first refit.

    Attributes:
        is_refitted: bool (U,), users of the snapshot who have been copied.
        is_item_refitted: bool (I,), items of the snapshot whose present parameters are refitted ones.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        arrays = [getattr(model, name) for name in OF_USERS]
        self._users = [np.zeros(array.shape, dtype=array.dtype) for array in arrays]  # memory is committed on writing
        self._items: dict[int, dict[str, NDArray[Any]]] = {}
        self.is_refitted = np.zeros(model.n_users, dtype=np.bool_)
        self.is_item_refitted = np.zeros(model.n_items, dtype=np.bool_)

    def keep_users(self, users: NDArray[np.int64]) -> None:
        """Copy those of `users` (B,) whom the snapshot trained; call it before they are refitted."""
        users = users[self._model.user_trained[users]]
        users = users[~self.is_refitted[users]]
        self.is_refitted[users] = True
        for copy, name in zip(self._users, OF_USERS, strict=True):
            copy[users] = getattr(self._model, name)[users]

    def users(self, users: NDArray[np.integer]) -> tuple[NDArray[np.float32], ...]:
        """(factors (B, F), biases (B,), baselines (B,)) of trained `users` in the snapshot."""
        changed = self.is_refitted[users]
        arrays = tuple(getattr(self._model, name)[users] for name in OF_USERS)
        for array, copy in zip(arrays, self._users, strict=True):
            array[changed] = copy[users[changed]]
        return arrays

    def are_followed(self, users: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether each of `users` (B,) follows the present items: refitted users and those newer than the snapshot."""
        follows: NDArray[np.bool_] = ~self._model.user_trained[users]
        follows[~follows] = self.is_refitted[users[~follows]]
        return follows

    def drop_user(self, user: int) -> None:
        """Overwrite the copy of a user with zeros."""
        if user < len(self.is_refitted):
            self.is_refitted[user] = False
            for copy in self._users:
                copy[user] = 0

    def keep_item(self, item: int) -> None:
        """Copy a trained item; call it before the item is refitted."""
        if item not in self._items:
            self._items[item] = {name: getattr(self._model, name)[item].copy() for name in OF_ITEMS}
            self.is_item_refitted[item] = True

    def restore_item(self, item: int) -> None:
        """Restore an item's parameters from the snapshot, if it was refitted."""
        self.is_item_refitted[item] = False
        for name, copy in self._items.pop(item, {}).items():
            getattr(self._model, name)[item] = copy

    @property
    def items(self) -> Collection[int]:
        """Trained items whose present parameters are refitted ones."""
        return self._items.keys()


class Drift:
    """Counts how far the ratings of trained items differ from those of the snapshot.

    Attributes:
        due: trained items whose ratings must be checked with `column`, which removes them from here.
    """

    def __init__(self, model: Model, table: RatingTable, as_trained: AsTrained, since: int) -> None:
        """Ratings from position `since` on are newer than the snapshot; `prepare` counts those in the table."""
        self._model, self._table, self._as_trained, self._since = model, table, as_trained, since
        self._is_trained = model.item_trained.copy()  # (I,) of the snapshot: the model grows
        self._n_trained = np.where(self._is_trained, model.item_counts, 0).astype(np.int64)
        self._n_new = np.zeros(model.n_items, dtype=np.int64)
        self._next = np.maximum(np.ceil(SHARE * self._n_trained), 1).astype(np.int64)  # `_n_new` at which it is due
        self._is_counted = False
        self.due: set[int] = set()

    def prepare(self) -> Iterator[None]:
        """Find the items that are due already, in slices; call it before `column`."""
        is_trained, n_old = self._model.user_trained, np.zeros_like(self._n_new)
        for first in range(0, len(is_trained), USERS_PER_SLICE):
            users = first, min(first + USERS_PER_SLICE, len(is_trained))
            kernels.count(*users, is_trained, self._table.ordered_rows, self._since, self._n_new, n_old)
            yield
        differs = np.maximum(self._n_new, self._n_trained - n_old) >= self._next
        self.due.update(np.flatnonzero(differs & self._is_trained).tolist())
        self._is_counted = True

    def note(self, changes: Changes) -> None:
        """Count changes that the table has just applied: those of a trained user's rating of a trained item."""
        counts = changes.items < len(self._is_trained)
        counts[counts] = self._is_trained[changes.items[counts]]
        counts &= ~(np.isnan(changes.old) & np.isnan(changes.new))
        counts &= self._model.user_trained[changes.users]
        users, items = changes.users[counts], changes.items[counts]
        is_gain = np.isnan(changes.old[counts]) & ~np.isnan(changes.new[counts])
        if not self._is_counted:
            self.due.update(items.tolist())  # `prepare` may have counted the change or not
            return
        gained = items[is_gain]
        np.add.at(self._n_new, gained, 1)
        self.due.update(gained[self._n_new[gained] >= self._next[gained]].tolist())
        self.due.update(items[~is_gain].tolist())
        neighbors = self._model.neighbors
        if neighbors.shape[1]:  # refitted items read other ratings of their raters too
            read, rows = self._as_trained.is_item_refitted, self._table.ordered_rows
            self.due.update(kernels.readers(users[~is_gain], items[~is_gain], rows, read, neighbors).tolist())

    def forget(self, items: NDArray[np.integer]) -> None:
        """Mark `items` that a trained user had rated, whom the table has dropped."""
        items = items[items < len(self._is_trained)]
        self.due.update(items[self._is_trained[items]].tolist())

    def column(self, item: int) -> Column | None:
        """The ratings that `item` learns from now; None if the snapshot learned from the same."""
        self.due.discard(item)
        raters = self._table.raters(item)
        raters = raters[self._model.user_trained[raters]]
        positions = self._table.positions[self._table.entries(np.full(len(raters), item), raters)]
        new, n_trained = np.sort(positions[positions >= self._since]), int(self._n_trained[item])
        n_read, self._next[item] = looks(len(new), n_trained)
        self._n_new[item] = len(new)
        n_missing = n_trained - (len(positions) - len(new))
        if not n_read and n_missing < self._next[item]:
            return None
        upto = int(new[n_read - 1]) if n_read else self._since - 1
        return Column(item, raters[positions <= upto], upto)


def learns(params: Params) -> bool:
    """Whether trained items of such a model are refitted.

    Those of culsh-implicit are not: descent balances all items against each other, with negatives drawn from all items.
    A closed form over the draws of one item loses that balance (NDCG@10 on MovieLens-1M .200 before, .146 after). Item
    weights have one solution for all items together (`gpu.ease.trainer`), and lists follow on their own
    (`gpu.online.list_refits`).
    """
    return params.refits in ("exact", "sampled") and not params.n_absences


def looks(n_new: int, n_trained: int) -> tuple[int, int]:
    """(new ratings to read, new ratings at which the item is due again) for `n_new` of them and `n_trained` old ones.

    Whenever a share is complete, the item reads all ratings up to then, until the next share is complete.
    """
    n_read, due = 0, max(1, math.ceil(SHARE * n_trained))
    while due <= n_new:
        n_read, due = due, due + max(1, math.ceil(SHARE * (n_trained + due)))
    return n_read, due
