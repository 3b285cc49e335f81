"""Users who have rated very many items newer than the model: these items do not follow them.

An item newer than the snapshot is solved over its raters, and again whenever one of them changes. For somebody who has
rated n new items a single rating would be n refits: with 20,000 of them 2 to 27 seconds in which nobody else's ratings
are learned. People do not rate that many between two trainings; scripts do. So beyond `MAX_NEW_ITEMS` a user counts as
a rater of trained items only, until the next training. What such a user is shown follows every rating as always.

Who that is depends on the snapshot and the present ratings alone, like everything here (`gpu.online.host_model`).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from gpu.host.online.rating_table import items_left_out
from gpu.model import Model
from gpu.online.rating_table import RatingTable

MAX_NEW_ITEMS = 1024  # that a user has rated; their refits take a tenth of a second or two


class Prolific:
    """Finds these users, and remembers whom it has found."""

    def __init__(self, model: Model, table: RatingTable) -> None:
        self._model, self._table = model, table
        self._known: dict[int, bool] = {}  # of users with long rows, as long as these do not change
        self._left_out: set[int] = set()  # whose new items have been told

    def note(self, users: NDArray[np.integer]) -> None:
        """Take note that the ratings of `users` have changed."""
        for user in set(users.tolist()) if self._known else ():
            self._known.pop(user, None)

    def forget(self, user: int) -> None:
        """Take note that a user is dropped."""
        self._known.pop(user, None)
        self._left_out.discard(user)

    def others(self, raters: NDArray[np.int32]) -> NDArray[np.int32]:
        """Those of `raters` (B,) whom new items follow."""
        return raters[self.are_followed(raters)]

    def are_followed(self, raters: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether new items follow each of `raters` (B,)."""
        found = np.ones(len(raters), dtype=np.bool_)
        for at in np.flatnonzero(self._table.rows.lengths[raters] > MAX_NEW_ITEMS).tolist():
            found[at] = not self._is_prolific(int(raters[at]))
        return found

    def readers_of(self, users: NDArray[np.int64]) -> Collection[int]:
        """New items to refit because the ratings of `users` (B,) have changed, beside those which the changes name."""
        is_told, is_long = np.zeros(len(users), dtype=np.bool_), self._table.rows.lengths[users] > MAX_NEW_ITEMS
        for at in np.flatnonzero(is_long).tolist():
            is_told[at] = self._is_told(int(users[at]))
        self._left_out.difference_update(users[~is_long].tolist())
        readers: list[int] = items_left_out(users[~is_told], self._table.rows, self._model.item_trained).tolist()
        return readers

    def _is_told(self, user: int) -> bool:
        """Whether new items were told before that they do not follow the user; from now on they are, if they do not."""
        if not self._is_prolific(user):
            self._left_out.discard(user)
            return False
        was_told = user in self._left_out
        self._left_out.add(user)
        return was_told

    def _is_prolific(self, user: int) -> bool:
        if self._table.rows.lengths[user] <= MAX_NEW_ITEMS:
            return False
        if user not in self._known:
            self._known[user] = len(self._new_items(user)) > MAX_NEW_ITEMS
        return self._known[user]

    def _new_items(self, user: int) -> NDArray[np.int32]:
        items = self._table.row(user)[0]
        return items[~self._model.item_trained[items]]
