"""`LateRefits`: what a model leaves to `OnlineModel.catch_up`, wherever it learns.

These are trained items that are due (`gpu.online.drift`), and the users who read an item that was refitted since they
were.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import numpy as np
from numpy.typing import NDArray

from gpu.model import Model
from gpu.online import drift
from gpu.online.drift import OF_ITEMS, AsTrained, Column, Drift
from gpu.online.rating_table import Changes, RatingTable
from gpu.online.refits import Refits


class LateRefits:
    """Refits trained items in the host's model, and finds the users who must follow.

    Attributes:
        due: trained items to be refitted; take them from here and hand them to `refit`.
        users: those to be refitted because an item that they have rated was. Others read such an item with their next
            refit, which is pending, or stay as the snapshot has them.
    """

    def __init__(
        self, model: Model, table: RatingTable, refits: Refits, as_trained: AsTrained, since: int | None
    ) -> None:
        """`since`: see `gpu.online.ReadyModel.follow`; with None, or where a model's items stay, nothing is due."""
        self._model, self._table, self._refits, self._as_trained = model, table, refits, as_trained
        self._drift = None
        if since is not None and drift.learns(model.params):
            self._drift = Drift(model, table, as_trained, since)
        self.due: set[int] = self._drift.due if self._drift is not None else set()
        self.users: set[int] = set()

    def __len__(self) -> int:
        """Rows that wait, as far as they are known."""
        return len(self.due) + len(self.users)

    def prepare(self) -> Iterator[None]:
        """Find the items that are due already, in slices; before the first `refit`."""
        if self._drift is not None:
            yield from self._drift.prepare()

    def note(self, changes: Changes) -> None:
        """Take note of what the table has just done."""
        if self._drift is not None:
            self._drift.note(changes)

    def forget(self, user: int, items: NDArray[np.integer]) -> None:
        """Take note that a user who had rated `items` was dropped from the table; before the model drops the user."""
        self.users.discard(user)
        if self._drift is not None and self._model.user_trained[user]:
            self._drift.forget(items)
            if self._refits.gram is not None:  # items read sums over all users
                self.due.update(self._as_trained.items)
        self._as_trained.drop_user(user)

    def keep(self, users: NDArray[np.int64]) -> None:
        """Take note that `users` (B,) are refitted beside the present items; before the model has what was found."""
        if self.users:
            self.users.difference_update(users.tolist())
        self._as_trained.keep_users(users)

    def refit(self, items: NDArray[np.int64]) -> Generator[None, None, NDArray[np.int64]]:
        """Refit `items` (B,) that were due, or give them back what they had; in slices.

        Returns:
            Those that have changed, (C,). Their readers are in `users`.
        """
        before = [getattr(self._model, name)[items] for name in OF_ITEMS]
        columns = [column for column in map(self._column, items.tolist()) if column is not None]
        if columns:
            yield from self._refits.refit_trained(columns)
        for column in columns:
            self._model.item_counts[column.item] = len(column.raters)
        has_changed = np.zeros(len(items), dtype=np.bool_)
        for name, one in zip(OF_ITEMS, before, strict=True):
            has_changed |= (one != getattr(self._model, name)[items]).reshape(len(items), -1).any(axis=1)
        changed = items[has_changed]
        for item in changed.tolist():
            raters = self._table.raters(item)
            self.users.update(raters[self._as_trained.are_followed(raters)].tolist())
        return changed

    def _column(self, item: int) -> Column | None:
        """What `item` is to learn from, once what it had is kept; None where it has got that back."""
        assert self._drift is not None  # noqa: S101 - else nothing is due; this narrows the type
        column = self._drift.column(item)
        if column is None:
            self._as_trained.restore_item(item)
        else:
            self._as_trained.keep_item(item)
        return column


def taken(pending: set[int], most: int, n_first: Callable[[NDArray[np.int64]], int] | None = None) -> NDArray[np.int64]:
    """Take up to `most` rows out of `pending`, of these the first `n_first`; any, their order leaves no trace."""
    rows = np.array([pending.pop() for _ in range(min(most, len(pending)))], dtype=np.int64)
    n = len(rows) if n_first is None else n_first(rows)
    pending.update(rows[n:].tolist())
    return rows[:n]
