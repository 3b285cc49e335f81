"""`LateRefits`: the refits that a model on the host or the device leaves to `OnlineModel.catch_up`.

These are trained items that are due (`gpu.online.drift`), and users who read an item that was refitted after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from gpu.data.changes import Changes
from gpu.data.model import Model
from gpu.data.rating_table import RatingTable
from gpu.online import drift
from gpu.online.drift import OF_ITEMS, AsTrained, Column, Drift
from gpu.online.refits import Refits


class LateRefits:
    """Refits trained items in the host's model, and finds the users to refit after them.

    Attributes:
        due: trained items to refit; take them from here and pass them to `refit`.
        users: users to refit because an item that they have rated was refitted. Raters who are not listed have a refit
            pending or keep the parameters of the snapshot.
    """

    def __init__(
        self, model: Model, table: RatingTable, refits: Refits, as_trained: AsTrained, since: int | None
    ) -> None:
        """`since`: see `gpu.online.ReadyModel.follow`. No item is due with None or if `drift.learns` is false."""
        self._model, self._table, self._refits, self._as_trained = model, table, refits, as_trained
        self._drift = None
        if since is not None and drift.learns(model.params):
            self._drift = Drift(model, table, as_trained, since)
        self.due: set[int] = self._drift.due if self._drift is not None else set()
        self.users: set[int] = set()

    def __len__(self) -> int:
        """Number of rows that wait; refits of these may add more."""
        return len(self.due) + len(self.users)

    def prepare(self) -> Iterator[None]:
        """Find the items that are due already, in slices; call it before the first `refit`."""
        if self._drift is not None:
            yield from self._drift.prepare()

    def note(self, changes: Changes) -> None:
        """Count changes that the table has just applied."""
        if self._drift is not None:
            self._drift.note(changes)

    def forget(self, user: int, items: NDArray[np.integer]) -> None:
        """Drop a user who had rated `items` and left the table; call it before the model drops the user."""
        self.users.discard(user)
        if self._drift is not None and self._model.user_trained[user]:
            self._drift.forget(items)
            if self._refits.gram is not None:  # items read sums over all users
                self.due.update(self._as_trained.items)
        self._as_trained.drop_user(user)

    def keep(self, users: NDArray[np.int64]) -> None:
        """Copy `users` (B,) who are refitted against the present items; call it before the model has the result."""
        if self.users:
            self.users.difference_update(users.tolist())
        self._as_trained.keep_users(users)

    def refit(self, items: NDArray[np.int64], show: Callable[[NDArray[np.int64]], None]) -> Iterator[None]:
        """Refit `items` (B,) that were due, or restore them from the snapshot; in slices.

        Then their readers are in `users`, and `show` gets the items that have changed, (C,).
        """
        before = [getattr(self._model, name)[items] for name in OF_ITEMS]
        columns: list[Column] = []
        for item in items.tolist():
            assert self._drift is not None  # noqa: S101 - else nothing is due; this narrows the type
            column = self._drift.column(item)
            if column is None:
                self._as_trained.restore_item(item)
            else:
                self._as_trained.keep_item(item)
                columns.append(column)
        if columns:
            yield from self._refits.refit_trained(columns)
        for column in columns:
            self._model.item_counts[column.item] = len(column.raters)
        has_changed = np.zeros(len(items), dtype=np.bool_)
        for name, array in zip(OF_ITEMS, before, strict=True):
            has_changed |= (array != getattr(self._model, name)[items]).reshape(len(items), -1).any(axis=1)
        changed = items[has_changed]
        for item in changed.tolist():
            raters = self._table.raters(item)
            self.users.update(raters[self._as_trained.are_followed(raters)].tolist())
        show(changed)


def taken(pending: set[int], most: int, n_first: Callable[[NDArray[np.int64]], int] | None = None) -> NDArray[np.int64]:
    """Take up to `most` rows out of `pending`, and keep the first `n_first` of these; the order leaves no trace."""
    if len(pending) <= most:
        rows = np.fromiter(pending, np.int64, len(pending))
        pending.clear()  # frees the memory of a set that was large, which each `pop` would look through
    else:
        rows = np.array([pending.pop() for _ in range(most)], dtype=np.int64)
    n = len(rows) if n_first is None else n_first(rows)
    pending.update(rows[n:].tolist())
    return rows[:n]
