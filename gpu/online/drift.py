"""Trained items that learn: which of them, and from which ratings.

A trained item is refitted once its ratings differ from those of the snapshot by a share, `SHARE`, and again whenever
their number has grown by that share since. In between, new ratings change their users alone: so the work that a rating
causes is the same, however popular its item is.

An item reads the users of the snapshot with the parameters that they have there, and the ratings that had come when
its last share was full. It does not read newer users. Users are refitted over the present items. So nothing depends on
itself: the state is a function of the snapshot and the present ratings in the order of their positions, and ratings
that are deleted or forgotten leave no trace.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.host.online import drift as kernels
from gpu.model import Model
from gpu.online.rating_table import Changes, RatingTable
from gpu.param_kinds import Params

SHARE = 0.1  # test RMSE and work for other shares: docs/algorithms.md
USERS_PER_SLICE = 4096
OF_USERS = "user_factors", "user_bias", "user_baseline"
OF_ITEMS = "item_factors", "item_bias", "explicit_weights", "implicit_weights", "item_counts"


class Column(NamedTuple):
    """What a trained item learns from.

    Attributes:
        item: its row.
        raters: int32 (B,), trained users, ascending.
        upto: position of the last rating that is read, theirs of other items included.
    """

    item: int
    raters: NDArray[np.int32]
    upto: int


class AsTrained:
    """Rows of a model as the snapshot has them, copied before they are first refitted.

    Attributes:
        is_refitted: bool (U,), users of the snapshot who have been copied.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        arrays = [getattr(model, name) for name in OF_USERS]
        self._users = [np.zeros(array.shape, dtype=array.dtype) for array in arrays]  # takes memory where written
        self._items: dict[int, dict[str, NDArray[Any]]] = {}
        self.is_refitted = np.zeros(model.n_users, dtype=np.bool_)

    def keep_users(self, users: NDArray[np.int64]) -> None:
        """Copy those of `users` (B,) whom the snapshot knows; before they are refitted."""
        users = users[self._model.user_trained[users]]
        users = users[~self.is_refitted[users]]
        self.is_refitted[users] = True
        for kept, name in zip(self._users, OF_USERS, strict=True):
            kept[users] = getattr(self._model, name)[users]

    def users(self, users: NDArray[np.integer]) -> tuple[NDArray[np.float32], ...]:
        """(factors (B, F), biases (B,), baselines (B,)) that the snapshot has for trained `users`."""
        changed = self.is_refitted[users]
        found = tuple(getattr(self._model, name)[users] for name in OF_USERS)
        for array, kept in zip(found, self._users, strict=True):
            array[changed] = kept[users[changed]]
        return found

    def are_followed(self, users: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether each of `users` (B,) follows the present items: who was refitted, or is newer than the snapshot."""
        found: NDArray[np.bool_] = ~self._model.user_trained[users]
        found[~found] = self.is_refitted[users[~found]]
        return found

    def drop_user(self, user: int) -> None:
        """Overwrite what is kept of a user."""
        if user < len(self.is_refitted):
            self.is_refitted[user] = False
            for kept in self._users:
                kept[user] = 0

    def keep_item(self, item: int) -> None:
        """Copy a trained item; before it is refitted."""
        if item not in self._items:
            self._items[item] = {name: getattr(self._model, name)[item].copy() for name in OF_ITEMS}

    def restore_item(self, item: int) -> None:
        """Give an item what it had, if it was refitted."""
        for name, kept in self._items.pop(item, {}).items():
            getattr(self._model, name)[item] = kept

    @property
    def items(self) -> Collection[int]:
        """Trained items that are refitted at present."""
        return self._items.keys()


class Drift:
    """Counts how far the ratings of trained items are from those of the snapshot.

    Attributes:
        due: trained items whose ratings are to be looked at with `column`, by which they are due no more.
    """

    def __init__(self, model: Model, table: RatingTable, as_trained: AsTrained, since: int) -> None:
        """Ratings from position `since` on are newer than the snapshot; `prepare` counts those that are there."""
        self._model, self._table, self._as_trained, self._since = model, table, as_trained, since
        self._is_trained = model.item_trained.copy()  # (I,), as the snapshot has it: the model grows
        self._n_trained = np.where(self._is_trained, model.item_counts, 0).astype(np.int64)
        self._n_new = np.zeros(model.n_items, dtype=np.int64)
        self._next = np.maximum(np.ceil(SHARE * self._n_trained), 1).astype(np.int64)  # `n_new` with which it is due
        self._is_counted = False
        self.due: set[int] = set()

    def prepare(self) -> Iterator[None]:
        """Find the items that are due already, in slices."""
        is_trained, n_old = self._model.user_trained, np.zeros_like(self._n_new)
        for first in range(0, len(is_trained), USERS_PER_SLICE):
            users = first, min(first + USERS_PER_SLICE, len(is_trained))
            table = self._table.rows, self._table.positions
            kernels.count(*users, is_trained, *table, self._since, self._n_new, n_old)
            yield
        differs = np.maximum(self._n_new, self._n_trained - n_old) >= self._next
        self.due.update(np.flatnonzero(differs & self._is_trained).tolist())
        self._is_counted = True

    def note(self, changes: Changes) -> None:
        """Take note of what the table has just done."""
        known = self._knows(changes)
        users, items = changes.users[known], changes.items[known]
        is_gain = np.isnan(changes.old[known]) & ~np.isnan(changes.new[known])
        if not self._is_counted:
            self.due.update(items.tolist())  # whether it was counted or not
            return
        gained = items[is_gain]
        np.add.at(self._n_new, gained, 1)
        self.due.update(gained[self._n_new[gained] >= self._next[gained]].tolist())
        self.due.update(items[~is_gain].tolist())
        for user, item in zip(users[~is_gain].tolist(), items[~is_gain].tolist(), strict=True):
            self.due.update(self._readers_of(user, item))

    def forget(self, items: NDArray[np.integer]) -> None:
        """Take note that a trained user who had rated `items` is dropped from the table."""
        items = items[items < len(self._is_trained)]
        self.due.update(items[self._is_trained[items]].tolist())

    def column(self, item: int) -> Column | None:
        """What `item` learns from at present; None where that is what the snapshot learned from."""
        self.due.discard(item)
        raters = self._table.raters(item)
        raters = raters[self._model.user_trained[raters]]
        positions = kernels.positions_of(item, raters, self._table.rows, self._table.positions)
        new, n_trained = np.sort(positions[positions >= self._since]), int(self._n_trained[item])
        n_read, self._next[item] = looks(len(new), n_trained)
        self._n_new[item] = len(new)
        n_missing = n_trained - (len(positions) - len(new))
        if not n_read and n_missing < self._next[item]:
            return None
        upto = int(new[n_read - 1]) if n_read else self._since - 1
        return Column(item, raters[positions <= upto], upto)

    def _knows(self, changes: Changes) -> NDArray[np.bool_]:
        """Whether each of `changes` (B,) did something to a rating that a trained user gave a trained item."""
        known = changes.items < len(self._is_trained)
        known[known] = self._is_trained[changes.items[known]]
        known &= ~(np.isnan(changes.old) & np.isnan(changes.new))
        known &= self._model.user_trained[changes.users]
        return known

    def _readers_of(self, user: int, item: int) -> list[int]:
        """Refitted items that the user has rated and whose neighbor `item` is: they read that rating."""
        rated = [other for other in self._table.row(user)[0].tolist() if other in self._as_trained.items]
        is_read: NDArray[np.bool_] = (self._model.neighbors[rated] == item).any(axis=1)
        return [other for other, reads in zip(rated, is_read, strict=True) if reads]


def learns(params: Params) -> bool:
    """Whether trained items of such a model are refitted.

    Those of culsh-implicit are not: descent has set them beside each other, with draws of all items, and a closed form
    over the draws of one item loses that (NDCG@10 on MovieLens-1M .200 before, .146 after). Item weights are all of one
    piece (`gpu.training.ease`).
    """
    return not (params.n_absences or params.has_item_weights)


def looks(n_new: int, n_trained: int) -> tuple[int, int]:
    """(how many of `n_new` new ratings are read, with how many the item is due again), where `n_trained` were trained.

    Each time a share is full all ratings up to then are read, until the next one is.
    """
    n_read, due = 0, max(1, math.ceil(SHARE * n_trained))
    while due <= n_new:
        n_read, due = due, due + max(1, math.ceil(SHARE * (n_trained + due)))
    return n_read, due
