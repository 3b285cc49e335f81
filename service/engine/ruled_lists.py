"""`RuledLists`: lists with boosts, rotation, pins, a limit per tag, or diversity. Belongs to the engine thread.

The rules are applied to the list of all items, in this order: a boost is added to each score, and showings lower it;
`max_per` walks down the list and skips items with a full value; `diversity` reorders the beginning; pins are put in at
their places. A page is a slice of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.ranking import diversity
from gpu.ranking.eligible import Eligible
from service.engine.boosts import BoostClass
from service.engine.history import History
from service.engine.queries import Recommend, ScoredItem
from service.engine.rotation import NONE_SHOWN, Rotation, Shown
from service.engine.rules import MAX_LENGTH, length_of, pool_of
from service.engine.selection import Selection

Columns = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
Similarities = Callable[[NDArray[np.int64]], NDArray[np.float64]]
NOTHING = Eligible(np.zeros(1, dtype=np.uint32), 0)
DEEPER = 4  # times as many items are asked for when full values have shortened a list


class Ranked(NamedTuple):
    """Items of one list in order.

    Attributes:
        rows: int64 (B,).
        scores: float64 (B,), with boosts.
        boosts: float64 (B,).
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    boosts: NDArray[np.float64]

    def part(self, places: NDArray[np.int64] | slice) -> Ranked:
        """The items at these places."""
        return Ranked(self.rows[places], self.scores[places], self.boosts[places])


class Line(NamedTuple):
    """An item of a finished list; a pinned one has no score."""

    row: int
    score: float | None = None
    boost: float = 0.0


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

    def __init__(self, history: History, selection: Selection) -> None:
        self._history, self._selection, self._rotation = history, selection, Rotation(history)

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
        return shown

    def _pages(self, queries: Sequence[Recommend], users: Sequence[str | None], source: Source) -> list[list[Line]]:
        classes = {id(query): self._selection.classes(query) for query in queries}
        walks = []
        for one, query in enumerate(queries):
            pins = self._pins(query, source, one)
            walks.append(_Walk(query, classes[id(query)], [row for row, _ in pins], self._values_of(query)))
            walks[-1].pins, walks[-1].shown = pins, self._rotation.shown(query, users[one])
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

    def _rank(self, walks: Sequence[_Walk], source: Source) -> None:
        """Let every walk take what it needs: at first from the best items, then from those without a full value."""
        left = list(range(len(walks)))
        width = max(walk.first_width for walk in walks)
        while left:
            found = self._best([walks[one] for one in left], left, width, source)
            for one, ranked in zip(left, found, strict=True):
                walks[one].take(ranked, is_all=len(ranked.rows) < width)
            left = [one for one in left if not walks[one].is_done]
            width = min(MAX_LENGTH, DEEPER * width)

    def _best(self, walks: Sequence[_Walk], lists: Sequence[int], n: int, source: Source) -> list[Ranked]:
        """The `n` best items of each list by score and boost; ties go to the higher score, then to the lower row."""
        exclude = [np.array([*walk.pinned, *walk.rows], dtype=np.int64) for walk in walks]
        classes = [self._without_full(walk) for walk in walks]
        others = [np.append(rows, walk.shown.rows) for rows, walk in zip(exclude, walks, strict=True)]
        parts: list[list[Columns]] = [[] for _ in walks]
        for place in range(max(map(len, classes))):
            eligible = [own[place].eligible if place < len(own) else NOTHING for own in classes]
            for part, own, (rows, scores) in zip(parts, classes, source.best(lists, n, eligible, others), strict=True):
                if place < len(own):
                    boosts = np.full(len(rows), own[place].boost)
                    part.append((rows.astype(np.int64), scores.astype(np.float64), boosts))
        shown = [walk.shown.within(own) for walk, own in zip(walks, classes, strict=True)]
        if width := max(len(one.rows) for one in shown):  # each of them with a boost of its own
            eligible = [one.eligible for one in shown]
            for part, one, (rows, scores) in zip(
                parts, shown, source.best(lists, width, eligible, exclude), strict=True
            ):
                part.append((rows.astype(np.int64), scores.astype(np.float64), one.boosts_of(rows)))
        return [_merged(part, n) for part in parts]

    def _without_full(self, walk: _Walk) -> list[BoostClass]:
        if walk.query.max_per is None or not walk.full:
            return walk.classes
        return self._selection.without_values(walk.classes, walk.query.max_per[0], walk.full)


class _Walk:
    """One list while it is made.

    Attributes:
        classes: the items that it is made of.
        pinned: rows of its pins, which are not ranked.
        pins: (row, place) of each.
        shown: what the user was shown, which is ranked apart.
        full: values of the tag of `max_per` that have as many items as they may.
        rows, is_done: the items taken, and whether there are enough, or no more.
    """

    def __init__(
        self,
        query: Recommend,
        classes: list[BoostClass],
        pinned: list[int],
        values_of: Callable[[int], Sequence[str]],
    ) -> None:
        self.query, self.classes, self.pinned = query, classes, pinned
        self.pins: list[tuple[int, int]] = []
        self.shown: Shown = NONE_SHOWN
        self.full: set[str] = set()
        self.rows: list[int] = []
        self.is_done = False
        self._values_of, self._length = values_of, length_of(query)
        self._taken: list[Ranked] = []
        self._counts: dict[str, int] = {}
        for row in pinned:
            self._count(row)

    @property
    def first_width(self) -> int:
        """Items to ask for at first."""
        return self._length if self.query.max_per is None else min(MAX_LENGTH, 2 * self._length)

    def take(self, ranked: Ranked, *, is_all: bool) -> None:
        """Take items from the next ones in order; `is_all`: there are no more."""
        if self.query.max_per is None:
            places = np.arange(min(self._length, len(ranked.rows)))
        else:
            wanted = self._length - len(self.rows)
            allowed = (place for place, row in enumerate(ranked.rows.tolist()) if self._allows(row))
            places = np.array([place for place, _ in zip(allowed, range(wanted), strict=False)], dtype=np.int64)
        taken = ranked.part(places)
        self._taken.append(taken)
        self.rows += taken.rows.tolist()
        is_over = is_all or not len(places) or self.query.max_per is None
        self.is_done = is_over or len(self.rows) >= self._length

    def page(self, similarities: Similarities | None) -> list[Line]:
        """The page of the finished list."""
        ranked = Ranked(*map(np.concatenate, zip(*self._taken, strict=True)))
        end = self.query.offset + self.query.n
        if self.query.diversity and similarities is not None:
            ranked = self._diverse(ranked, similarities, end)
        columns = (column.tolist() for column in ranked)
        lines = [Line(*line) for line in zip(*columns, strict=True)]
        for row, place in self.pins:
            lines.insert(place - 1, Line(row))
        return lines[self.query.offset : end]

    def _diverse(self, ranked: Ranked, similarities: Similarities, end: int) -> Ranked:
        """The items with the first of them in the order of MMR, as far as the page reaches."""
        pool = ranked.part(slice(pool_of(self.query)))
        n = min(end, len(pool.rows))
        order = diversity.reordered(pool.scores, similarities(pool.rows), n, self.query.diversity)
        rest = np.setdiff1d(np.arange(len(ranked.rows)), order)
        return ranked.part(np.append(order, rest))

    def _allows(self, row: int) -> bool:
        """Whether none of the values of `row` is full; then it counts."""
        if not self.full.isdisjoint(self._values_of(row)):
            return False
        self._count(row)
        return True

    def _count(self, row: int) -> None:
        if self.query.max_per is None:
            return
        for value in self._values_of(row):
            self._counts[value] = self._counts.get(value, 0) + 1
            if self._counts[value] >= self.query.max_per[1]:
                self.full.add(value)


def _merged(parts: Sequence[Columns], n: int) -> Ranked:
    """The `n` best items of all classes, from (rows, scores without boost, boosts) of each class in order."""
    rows, scores, boosts = map(np.concatenate, zip(*parts, strict=True))
    boosted = Ranked(rows, scores + boosts, boosts)
    if len(parts) == 1:
        return boosted.part(slice(n))
    return boosted.part(np.lexsort((rows, -scores, -boosted.scores))[:n])
