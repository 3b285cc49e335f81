"""What rules are applied to: the lists of a model for a group of users, and a common list."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpu.ranking import topn
from gpu.ranking.diversity import similarities
from gpu.ranking.eligible import Eligible
from gpu.ratings import Rows
from service.engine.lists.common_lists import CommonLists
from service.engine.lists.exploration import Exploration, Level
from service.engine.lists.rule_walk import Line, Similarities
from service.engine.lists.selection import Selection
from service.engine.models.live_model import LiveModel
from service.engine.queries import Recommend
from service.engine.queries.batches import of_each


class ModelSource:
    """A `service.engine.lists.ruled_lists.Source` for a group of users of one model."""

    def __init__(
        self,
        live_model: LiveModel,
        selection: Selection,
        users: topn.Users,
        rows: Rows,
        queries: Sequence[Recommend],
        kept_out: Sequence[NDArray[np.int32]] | None,
        exploration: Exploration,
    ) -> None:
        """The queries agree in `include_seen`, `min_ratings` and `available`; `kept_out` has items of events."""
        self._live_model, self._selection, self._users, self._rows = live_model, selection, users, rows
        self._exploration = exploration
        self._queries, self._candidates = queries, of_each(selection.candidates, queries)
        excluded = of_each(selection.excluded, queries)
        self._excluded = excluded if kept_out is None else list(map(np.append, excluded, kept_out))

    def best(
        self, lists: Sequence[int], n: int, eligible: Sequence[Eligible | None], exclude: Sequence[NDArray[np.int64]]
    ) -> list[tuple[NDArray[np.integer], NDArray[np.floating]]]:
        """The best items of each list."""
        some, query = np.array(lists), self._queries[0]
        items, scores = self._live_model.recommend(
            topn.Users(*(column[some] for column in self._users)),
            topn.rows_of(self._rows, some),
            n,
            self._selection.hidden(query),
            include_seen=query.include_seen,
            min_ratings=query.min_ratings,
            exclude=[np.append(self._excluded[one], rows) for one, rows in zip(lists, exclude, strict=True)],
            candidates=[self._candidates[one] for one in lists],
            eligible=eligible,
        )
        counts = (items >= 0).sum(axis=1).tolist()  # padding comes last
        return [(own[:count], best[:count]) for own, best, count in zip(items, scores, counts, strict=True)]

    def levels(self, one: int) -> Sequence[Level]:
        """The items that a list may explore; none without `explore`."""
        query = self._queries[one]
        if not query.explore:
            return ()
        return self._exploration.levels(self._live_model, query.explore_below, self._selection.eligible(query))

    def may_show(self, one: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of `rows` that the list may show."""
        query, start = self._queries[one], self._rows.starts[one]
        out = self._excluded[one]
        if not query.include_seen:
            out = np.append(out, self._rows.items[start : start + self._rows.lengths[one]])
        rows = self._selection.may_show(query, rows)
        rows = rows[~np.isin(rows, out)]
        return rows[self._live_model.table.item_counts[rows] >= query.min_ratings]

    @property
    def similarities(self) -> Similarities:
        """Similarities of all pairs of rows."""
        return partial(similarities, self._live_model.model)

    def estimates(self, pages: Sequence[Sequence[Line]]) -> Sequence[Sequence[float] | None]:
        """Estimated ratings of the lines of each list; None if the model has none."""
        if self._live_model.model.is_implicit:
            return [None] * len(pages)
        items = np.full((len(pages), max(map(len, pages))), -1, dtype=np.int32)
        for own, page in zip(items, pages, strict=True):
            own[: len(page)] = [line.row for line in page]
        found: list[list[float]] = self._live_model.estimates(self._users, self._rows, items).tolist()
        return found


class CommonSource:
    """A `service.engine.lists.ruled_lists.Source` for one list of those that stand in for a model."""

    def __init__(
        self,
        common: CommonLists,
        selection: Selection,
        query: Recommend,
        left_out: NDArray[np.int32],
        live_model: LiveModel | None,
    ) -> None:
        self._common, self._selection, self._query, self._left_out = common, selection, query, left_out
        self._live_model = live_model

    def best(
        self, lists: Sequence[int], n: int, eligible: Sequence[Eligible | None], exclude: Sequence[NDArray[np.int64]]
    ) -> list[tuple[NDArray[np.integer], NDArray[np.floating]]]:
        """The best items of each list."""
        lists_of = (
            self._common.best(self._query, n, 0, one, self._left_out, rows)
            for one, rows in zip(eligible, exclude, strict=True)
        )
        return [(np.array(rows, dtype=np.int64), np.array(scores)) for rows, scores in lists_of]

    def levels(self, one: int) -> Sequence[Level]:
        """None: such a list explores nothing."""
        return ()

    def may_show(self, one: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of `rows` that the list may show."""
        rows = self._selection.may_show(self._query, rows)
        rows = rows[~np.isin(rows, self._left_out)]
        return rows[self._common.counts[rows] >= self._query.min_ratings]

    @property
    def similarities(self) -> Similarities | None:
        """Similarities by the model that does not know the user; None if none is live."""
        return None if self._live_model is None else partial(similarities, self._live_model.model)

    def estimates(self, pages: Sequence[Sequence[Line]]) -> Sequence[Sequence[float] | None]:
        """None: such a list estimates nothing."""
        return [None] * len(pages)
