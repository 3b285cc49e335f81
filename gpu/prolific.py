"""Users who have rated very many items newer than the model: these items do not follow them.

An item newer than the snapshot is solved over its raters, and again whenever one of them changes. For somebody who has
rated n new items a single rating would be n refits: with 20,000 of them 2 to 27 seconds in which nobody else's ratings
are learned. People do not rate that many between two trainings; scripts do. So beyond `MAX_NEW_ITEMS` a user counts as
a rater of trained items only, until the next training. What such a user is shown follows every rating as always.

Who that is depends on the snapshot and the present ratings alone, like everything here (`gpu.online`).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from gpu.model import Model
from gpu.table import RatingTable

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
        is_long = self._table.rows.lengths[raters] > MAX_NEW_ITEMS
        if not is_long.any():
            return raters
        stays = np.ones(len(raters), dtype=np.bool_)
        for at in np.flatnonzero(is_long).tolist():
            stays[at] = not self._is_prolific(int(raters[at]))
        return raters[stays]

    def readers_of(self, user: int) -> Collection[int]:
        """New items that are to be refitted because the ratings of `user` have changed, beside those it was about."""
        if self._is_prolific(user):
            if user in self._left_out:
                return ()
            self._left_out.add(user)
        else:
            self._left_out.discard(user)
        readers: list[int] = self._new_items(user).tolist()
        return readers

    def _is_prolific(self, user: int) -> bool:
        if self._table.rows.lengths[user] <= MAX_NEW_ITEMS:
            return False
        if user not in self._known:
            self._known[user] = len(self._new_items(user)) > MAX_NEW_ITEMS
        return self._known[user]

    def _new_items(self, user: int) -> NDArray[np.int32]:
        items = self._table.row(user)[0]
        return items[~self._model.item_trained[items]]
