"""`RuledLists`: lists with boosts, rotation, pins, a limit per tag, or diversity. Belongs to the engine thread.

The rules are applied to the list of all items, in this order: a boost is added to each score, and showings lower it;
the list is made place by place, `max_per` skips items with a full value, and places for exploration take items with few
ratings; `diversity` reorders the others at the beginning; pins are put in at their places. A page is a slice of the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.ranking.eligible import Eligible
from service.engine.lists import boosts
from service.engine.lists.boosts import BoostClass
from service.engine.lists.exploration import Exploration, Level
from service.engine.lists.rotation import Rotation
from service.engine.lists.rule_walk import Line, Ranked, Similarities, Supply, Walk
from service.engine.lists.selection import Selection
from service.engine.queries import Recommend, ScoredItem
from service.engine.queries.rules import MAX_LENGTH, length_of
from service.engine.state.history import History

Columns = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
DEEPER = 4  # times as many items are asked for when full values have shortened a list


class Source(Protocol):
    """Ranks for several lists, which are named by their places among the queries."""

    def best(
        self, lists: Sequence[int], n: int, eligible: Sequence[Eligible | None], exclude: Sequence[NDArray[np.int64]]
    ) -> list[tuple[NDArray[np.integer], NDArray[np.floating]]]:
        """Rows and scores of the `n` best items of each list, or of all if there are fewer.

        Args:
            eligible: the only items of each list, instead of those that pass its filter.
            exclude: rows that must not appear, beside those that the query excludes.
        """
        ...

    def levels(self, one: int) -> Sequence[Level]:
        """The items that places for exploration may take, by their number of ratings, the fewest first."""
        ...

    def may_show(self, one: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of `rows` that the list may show, whether the model knows them or not."""
        ...

    @property
    def similarities(self) -> Similarities | None:
        """Similarities of all pairs of rows; None if there is no model."""
        ...

    def estimates(self, pages: Sequence[Sequence[Line]]) -> Sequence[Sequence[float] | None]:
        """Estimated ratings of the lines of each list, or None."""
        ...


class RuledLists:
    """Applies the rules of queries to what a `Source` ranks."""

    def __init__(self, history: History, selection: Selection, exploration: Exploration) -> None:
        self._history, self._selection, self._rotation = history, selection, Rotation(history)
        self._exploration = exploration

    def lists(
        self, queries: Sequence[Recommend], users: Sequence[str | None], source: Source
    ) -> list[list[ScoredItem]]:
        """The page of each query; `users` has their ids, None for an anonymous one."""
        pages = self._pages(queries, users, source)
        estimates = source.estimates(pages)
        return [self._shown(query, page, own) for query, page, own in zip(queries, pages, estimates, strict=True)]

    def _shown(self, query: Recommend, page: Sequence[Line], estimates: Sequence[float] | None) -> list[ScoredItem]:
        ids, shown = self._history.items.ids([line.row for line in page]), []
        for place, (item, line) in enumerate(zip(ids, page, strict=True)):
            if line.score is None:
                shown.append(ScoredItem(item, None, source="pin"))
                continue
            shown.append(ScoredItem(item, line.score))
            if estimates is not None:
                shown[-1].estimate = estimates[place]
            if query.boosts or query.rotate is not None:
                shown[-1].boost = line.boost
            if line.is_explored:
                shown[-1].source = "explore"
        return shown

    def _pages(self, queries: Sequence[Recommend], users: Sequence[str | None], source: Source) -> list[list[Line]]:
        classes = {id(query): self._selection.classes(query) for query in queries}
        walks = []
        for one, query in enumerate(queries):
            pins = self._pins(query, source, one)
            walks.append(Walk(query, classes[id(query)], [row for row, _ in pins], self._values_of(query)))
            walks[-1].pins, walks[-1].shown = pins, self._rotation.shown(query, users[one])
            if levels := source.levels(one):
                walks[-1].levels = levels
                walks[-1].are_free = self._exploration.places(query, users[one], length_of(query))
        self._rank(walks, source)
        return [walk.page(source.similarities) for walk in walks]

    def _pins(self, query: Recommend, source: Source, one: int) -> list[tuple[int, int]]:
        """(row, place) of the pins that may be shown, in order of places."""
        rows = {self._history.items.row(item): at for item, at in query.pins}
        known = np.array([row for row in rows if row is not None], dtype=np.int64)
        shown = source.may_show(one, known).tolist() if len(known) else []
        return sorted(((row, rows[row]) for row in shown), key=lambda pin: pin[1])

    def _values_of(self, query: Recommend) -> Callable[[int], Sequence[str]]:
        """The values of a row that `max_per` counts."""
        if query.max_per is None:
            return lambda row: ()
        tag = query.max_per[0]
        return lambda row: self._history.catalog.features(row)[0].get(tag, ())

    def _rank(self, walks: Sequence[Walk], source: Source) -> None:
        """Let every walk take what it needs: at first from the best items, then from those without a full value."""
        left = list(range(len(walks)))
        width = max(walk.first_width for walk in walks)
        while left:
            some = [walks[one] for one in left]
            found = self._best(some, left, width, source, [self._without_full(walk) for walk in some])
            few = self._few_rated(some, left, width, source)
            for walk, ranked, to_explore in zip(some, found, few, strict=True):
                walk.take(Supply(ranked, len(ranked.rows) < width), to_explore)
            left = [one for one in left if not walks[one].is_done]
            width = min(MAX_LENGTH, DEEPER * width)

    def _few_rated(self, walks: Sequence[Walk], lists: Sequence[int], n: int, source: Source) -> list[Supply]:
        """The `n` best items of each list for places for exploration."""
        found: list[list[tuple[int, Ranked]]] = [[] for _ in walks]
        for place in range(max(len(walk.levels) for walk in walks)):
            has_level = [place < len(walk.levels) for walk in walks]
            classes = [
                boosts.within(self._without_full(walk), walk.levels[place].items) if has else [boosts.NO_CLASS]
                for walk, has in zip(walks, has_level, strict=True)
            ]
            best = self._best(walks, lists, n, source, classes)
            for own, walk, has, ranked in zip(found, walks, has_level, best, strict=True):
                if has:
                    own.append((walk.levels[place].n_ratings, ranked))
        return [walk.by_bonus(own, n) for walk, own in zip(walks, found, strict=True)]

    def _best(
        self,
        walks: Sequence[Walk],
        lists: Sequence[int],
        n: int,
        source: Source,
        classes: Sequence[list[BoostClass]],
    ) -> list[Ranked]:
        """The `n` best items of `classes` for each list, by score and boost; ties go to the higher score, then to the
        lower row.
        """
        exclude = [np.array([*walk.pinned, *walk.rows], dtype=np.int64) for walk in walks]
        others = [np.append(rows, walk.shown.rows) for rows, walk in zip(exclude, walks, strict=True)]
        parts: list[list[Columns]] = [[] for _ in walks]
        for place in range(max(map(len, classes))):
            eligible = [own[place].eligible if place < len(own) else boosts.NO_CLASS.eligible for own in classes]
            for part, own, (rows, scores) in zip(parts, classes, source.best(lists, n, eligible, others), strict=True):
                if place < len(own):
                    added = np.full(len(rows), own[place].boost)
                    part.append((rows.astype(np.int64), scores.astype(np.float64), added))
        shown = [walk.shown.within(own) for walk, own in zip(walks, classes, strict=True)]
        if width := max(len(one.rows) for one in shown):  # each of them with a boost of its own
            eligible = [one.eligible for one in shown]
            for part, one, (rows, scores) in zip(
                parts, shown, source.best(lists, width, eligible, exclude), strict=True
            ):
                part.append((rows.astype(np.int64), scores.astype(np.float64), one.boosts_of(rows)))
        return [_merged(part, n) for part in parts]

    def _without_full(self, walk: Walk) -> list[BoostClass]:
        if walk.query.max_per is None or not walk.full:
            return walk.classes
        return self._selection.without_values(walk.classes, walk.query.max_per[0], walk.full)


def _merged(parts: Sequence[Columns], n: int) -> Ranked:
    """The `n` best items of all classes, from (rows, scores without boost, boosts) of each class in order."""
    rows, scores, boosts = map(np.concatenate, zip(*parts, strict=True))
    boosted = Ranked(rows, scores + boosts, boosts)
    if len(parts) == 1:
        return boosted.part(slice(n))
    return boosted.part(np.lexsort((rows, -scores, -boosted.scores))[:n])
