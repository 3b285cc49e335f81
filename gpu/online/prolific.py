"""Prolific users have rated very many items newer than the model; these items do not learn from them.

An item newer than the snapshot is solved over its raters, and again whenever one of them changes. A rating by a user
with n new items would cause n refits: 2 to 27 seconds for 20,000 items, in which no other rating is learned. People do
not rate that many between two trainings; scripts do. So beyond `MAX_NEW_ITEMS` a user counts only as a rater of trained
items, until the next training. The lists of such a user follow every rating as always.

The snapshot and the present ratings alone decide who is prolific, like all state here (`gpu.online.model`).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from gpu.data.host_rating_table import items_left_out
from gpu.data.model import Model
from gpu.data.rating_table import RatingTable

MAX_NEW_ITEMS = 1024  # new items of a user; their refits take a tenth of a second or two


class Prolific:
    """Finds prolific users, and caches the result for users with long rows."""

    def __init__(self, model: Model, table: RatingTable) -> None:
        self._model, self._table = model, table
        self._cache: dict[int, bool] = {}  # whether a user with a long row is prolific, until the row changes
        self._left_out: set[int] = set()  # prolific users whose new items were refitted without them

    def note(self, users: NDArray[np.integer]) -> None:
        """Clear the cache for `users`, whose ratings have changed."""
        for user in set(users.tolist()) if self._cache else ():
            self._cache.pop(user, None)

    def forget(self, user: int) -> None:
        """Drop a user."""
        self._cache.pop(user, None)
        self._left_out.discard(user)

    def others(self, raters: NDArray[np.int32]) -> NDArray[np.int32]:
        """Those of `raters` (B,) from whom new items learn."""
        return raters[self.are_followed(raters)]

    def are_followed(self, raters: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether new items learn from each of `raters` (B,)."""
        follows = np.ones(len(raters), dtype=np.bool_)
        for n in np.flatnonzero(self._table.rows.lengths[raters] > MAX_NEW_ITEMS).tolist():
            follows[n] = not self._is_prolific(int(raters[n]))
        return follows

    def readers_of(self, users: NDArray[np.int64]) -> Collection[int]:
        """New items to refit because the ratings of `users` (B,) have changed, in addition to the changed items."""
        is_left_out = np.zeros(len(users), dtype=np.bool_)
        is_long = self._table.rows.lengths[users] > MAX_NEW_ITEMS
        for n in np.flatnonzero(is_long).tolist():
            user = int(users[n])
            if self._is_prolific(user):
                is_left_out[n] = user in self._left_out  # since an earlier call, so no new item needs a refit
                self._left_out.add(user)
            else:
                self._left_out.discard(user)
        self._left_out.difference_update(users[~is_long].tolist())
        readers: list[int] = items_left_out(users[~is_left_out], self._table.rows, self._model.item_trained).tolist()
        return readers

    def _is_prolific(self, user: int) -> bool:
        if self._table.rows.lengths[user] <= MAX_NEW_ITEMS:
            return False
        if user not in self._cache:
            items = self._table.row(user)[0]
            self._cache[user] = int(np.count_nonzero(~self._model.item_trained[items])) > MAX_NEW_ITEMS
        return self._cache[user]
