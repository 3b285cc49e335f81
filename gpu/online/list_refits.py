"""`ListRefits`: the lists of items that are liked together follow the ratings exactly (`gpu.hashing.cooccurrence`).

A list is made again from the rows of the users who like its item, as a training makes it. So nothing but the lists is
stored, what was deleted or forgotten leaves no trace, and once all lists have followed they are those of a training on
the present ratings, bit for bit.

A rating of a user u makes the lists of the items stale that u has rated: a sum of theirs, or the number of likes of u,
has changed. It also changes the number of ratings of its item j. Where d_j reaches another power of √2, the lists of
all items that are liked together with j become stale. Between such steps, which become rare as j becomes popular, d_j
stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from gpu.base.growing import Growing
from gpu.data.model import Model
from gpu.data.rating_table import RatingTable
from gpu.data.ratings import are_likes
from gpu.hashing import host_cooccurrence as cooccurrence
from gpu.hashing.cooccurrence import POPULARITY, rules_of
from gpu.online.history_refits import HistoryRefits
from gpu.online.reading import ANONYMOUS, Reading

USERS_PER_SLICE = 4096  # whose rows are added up in a slice; with 100 ratings each it takes a millisecond or two
RATINGS_PER_SLICE = 2**20  # that are read, about, for several items in a slice


class ListRefits(HistoryRefits):
    """Refits of models with lists of items; see `gpu.online.refits`."""

    most_users, most_items = 1024, 256

    def __init__(self, model: Model, table: RatingTable, item_keys: NDArray[np.uint64], stale: set[int]) -> None:
        """`stale`: items whose lists are to be made again; who takes them from there calls `refit_items`."""
        super().__init__(model, table)
        self._rules, self._keys, self._stale = rules_of(model), item_keys, stale
        self._n_likes = Growing(np.zeros(model.n_users, dtype=np.int32))
        self._scales = Growing(np.zeros(model.n_items))
        self._sums, self._touched = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)

    def prepare(self) -> Iterator[None]:
        """Count the likes of all users. All lists are stale: a training leaves some ratings out, to test the model."""
        model, rules, rows = self._model, self._rules, self._table.rows
        n_likes = self._n_likes.values
        cooccurrence.count_likes(rows.at(slice(len(n_likes))), rules.middle, rules.lift, n_likes)
        counts = self._table.item_counts[: model.n_items]
        self._scales.values[:] = rules.scales(counts)
        self._stale.update(np.flatnonzero((counts > 0) | model.item_trained | model.item_factors.any(axis=1)).tolist())
        yield

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Grow to the size of the model."""
        del user_keys
        self._keys = item_keys
        self._n_likes.grow(self._model.n_users)
        self._scales.grow(self._model.n_items)

    def refit_users(self, users: NDArray[np.int64]) -> Iterator[None]:
        """Count the likes of `users` (B,), and mark what they have rated. Users with very many likes change no sum."""
        rules, most = self._rules, len(self._rules.user_weights) - 1
        for user in users.tolist():
            items, values, _, _ = self._table.row(user)
            before, now = (
                self._n_likes.values[user],
                np.count_nonzero(are_likes(values, float(rules.middle), float(rules.lift))),
            )
            self._n_likes.values[user] = now
            self._model.user_factors[user] = len(items) > 0
            if min(before, now) <= most:
                self._stale.update(items.tolist())
        return iter(())

    def refit_items(self, items: NDArray[np.int64]) -> Iterator[None]:
        """Make the lists of `items` (B,), in slices."""
        model, table, rules = self._model, self._table, self._rules
        scales = rules.scales(table.item_counts[items])
        have_moved = scales != self._scales.values[items]
        self._scales.values[items] = scales
        if len(self._sums) < model.n_items:
            self._sums, self._touched = np.zeros(model.n_items, dtype=np.int64), np.empty(model.n_items, dtype=np.int32)
        sums, touched, n_read = self._sums, self._touched, 0
        for item, has_moved in zip(items.tolist(), have_moved.tolist(), strict=True):
            raters, n, n_likes = table.raters_as_stored(item).copy(), 0, 0
            for first in range(0, len(raters), USERS_PER_SLICE):
                users = raters[first : first + USERS_PER_SLICE]
                # NaN is the value of one who is gone meanwhile.
                values, _ = table.looked_up(users, np.full(len(users), item, dtype=np.int32))
                some = users, values, table.rows, self._n_likes.values, rules.user_weights
                n = cooccurrence.add_users(*some, rules.middle, rules.lift, sums, touched, n)
                n_likes += int(np.count_nonzero(are_likes(values, float(rules.middle), float(rules.lift))))
                n_read += len(users)
                if n_read >= USERS_PER_SLICE:
                    n_read = 0
                    yield
            if has_moved:
                self._stale.update(np.setdiff1d(touched[:n], items).tolist())
            lists = model.listed[item], model.listed_weights[item]
            cooccurrence.write_list(item, sums, touched[:n], self._scales.values, self._keys, *lists)
            model.item_factors[item, 0], model.item_trained[item] = n_likes * POPULARITY, model.listed[item, 0] >= 0

    def forget(self, user: int) -> Collection[int]:
        """No items: the caller marks what the user had rated."""
        self._n_likes.values[user] = 0
        return ()

    def fold_in(
        self, items: NDArray[np.int32], values: NDArray[np.float32], reading: Reading = ANONYMOUS
    ) -> tuple[NDArray[np.float64], float]:
        """([u; 0] (2,), 0) of a user with these ratings: popularity counts for everybody who has rated an item."""
        del values, reading
        return np.array([float(len(items) > 0), 0.0]), 0.0

    def first_users(self, users: NDArray[np.int64]) -> int:
        """How many of `users` (B,) fit into a slice."""
        return self._n_fitting(self._table.rows.lengths[users])

    def first_items(self, items: NDArray[np.int64]) -> int:
        """How many of `items` (B,) fit into a slice, if their users have rated as much as all have on average."""
        table = self._table
        mean = table.n_ratings / max(int(np.count_nonzero(table.rows.lengths)), 1)
        return self._n_fitting(table.item_counts[items] * mean)

    @staticmethod
    def _n_fitting(costs: NDArray[np.number]) -> int:
        return max(int(np.searchsorted(np.cumsum(costs), RATINGS_PER_SLICE, side="right")), 1)
