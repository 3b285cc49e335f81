"""`CommonLists`: lists that are the same for all users, and stand in where no model knows the user."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.engine.applied import Applied
from service.engine.history import History
from service.engine.popularity import Popularity
from service.engine.queries import Popular, PopularItems, Recommend, ScoredItem, count_of
from service.engine.selection import Selection

NO_RATINGS = "there are no ratings yet"


class CommonLists:
    """Lists by popularity. Belongs to the engine thread."""

    def __init__(self, history: History, selection: Selection) -> None:
        self._history, self._selection, self._popularity = history, selection, Popularity()

    def recount(self) -> None:
        """Count again, after the history was read from the log."""
        strengths = self._history.strengths.table
        self._popularity.recount(strengths.rows, strengths.n_items)

    def note(self, applied: Applied) -> None:
        """Count the changes that the history has just applied."""
        (changes, forgotten, _), n_items = applied.strengths, self._history.table.n_items
        self._popularity.note(changes.items, changes.old, changes.new, n_items)
        for gone in forgotten:
            self._popularity.note(gone.items, gone.values, np.full_like(gone.values, np.nan), n_items)

    def popular(self, query: Popular, as_of: str) -> PopularItems:
        """The answer to `query`."""
        return PopularItems(self.items(query), as_of, self.warnings(None), count_of(self._selection.eligible(query)))

    def items(self, query: Recommend | Popular, *left_out: NDArray[np.int32]) -> list[ScoredItem]:
        """The page of the most popular items that `query` asks for, without those in `left_out`."""
        shown, candidates = self._selection.of_popular(query)
        for rows in left_out:
            shown[rows] = False
        best = self._popularity.best(query.n, query.offset, shown, candidates, query.min_ratings)
        ranked = zip(*best, strict=True)
        return [ScoredItem(self._history.items.id(row), score) for row, score in ranked]

    def warnings(self, otherwise: str | None) -> list[str]:
        """A warning if there are no ratings, else `otherwise`, if that is one."""
        if not self._popularity.n_ratings:
            return [NO_RATINGS]
        return [] if otherwise is None else [otherwise]
