"""`Rules`: makes lists of what a source ranks, place by place, by the rules of their queries.

The rules are applied to the list of all items, in this order: a boost is added to each score, and showings lower it;
the list is made place by place, `max_per` skips items with a full value, and places for exploration take items with few
ratings; `diversity` reorders the others at the beginning; pins are put in at their places. A page is a slice of the
result. Without rules a list is what the source ranks.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.ranking import diversity, topn
from gpu.ranking.eligible import Eligible
from service.engine.lists import boosts
from service.engine.lists.boosts import BoostClass
from service.engine.lists.exploration import Exploration, Levels, bonus, leveling
from service.engine.lists.rotation import Shown, shown_to
from service.engine.lists.selection import Selection
from service.engine.lists.sources import Ask, Lists, Similarities, Source
from service.engine.queries import Ruled
from service.engine.queries.batches import of_each
from service.engine.queries.rules import MAX_LENGTH, has_rules, length_of, pool_of
from service.engine.state.catalog import Catalog
from service.engine.state.history import History

DEEPER = 4  # times as many items are asked for when full values have shortened a list
BY_SCORE, PINNED = -1, -2  # marks


class Items(NamedTuple):
    """Ranked items of several lists, as columns.

    Attributes:
        rows: int64 (L,).
        scores: float64 (L,), with boosts; 0 for a pin, which has none.
        boosts: float64 (L,).
        marks: int64 (L,), why each item is at its place: `BY_SCORE`, `PINNED`, or, if it is explored, its number of
            ratings.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    boosts: NDArray[np.float64]
    marks: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[int] | NDArray[np.int64], scores: NDArray[np.float64], mark: int) -> Items:
        """Items with the same mark, without boosts."""
        n = len(rows)
        return cls(np.array(rows, dtype=np.int64), scores, np.zeros(n), np.full(n, mark))

    def part(self, places: NDArray[np.int64]) -> Items:
        """The items at these places."""
        return Items(self.rows[places], self.scores[places], self.boosts[places], self.marks[places])


class Sets(NamedTuple):
    """Sets of items that a list may take, each of which is ranked apart.

    Attributes:
        items: None: all items.
        boosts: of the items of each set.
        marks: of the items of each set, see `Items`.
    """

    items: Sequence[Eligible | None]
    boosts: Sequence[float]
    marks: Sequence[int]

    @property
    def classes(self) -> list[tuple[int, list[BoostClass]]]:
        """The sets of each mark."""
        of_mark = dict[int, list[BoostClass]]()
        for items, boost, mark in zip(*self, strict=True):
            of_mark.setdefault(mark, []).append(BoostClass(items, boost))
        return list(of_mark.items())


class Walk:
    """One list while it is made: it takes items by their places among all that were ranked.

    Attributes:
        at, query: its place in the source, and what was asked for.
        length: items to take.
        classes: the items that it is made of.
        pins: (row, place) of each, in order of places; they are not ranked.
        shown: what the user was shown, which is ranked apart.
        levels, are_free: what it may explore, and whether each place is for that.
        places, rows: of the items taken.
        is_done: whether there are enough, or no more.
        c: of the bonus of items to explore; None: not decided yet.
    """

    def __init__(
        self,
        at: int,
        query: Ruled,
        length: int,
        classes: list[BoostClass],
        pins: Sequence[tuple[int, int]],
        shown: Shown,
        levels: Levels,
        are_free: Sequence[bool],
        catalog: Catalog,
    ) -> None:
        self.at, self.query, self.length, self.classes = at, query, length, classes
        self.pins, self.shown, self.levels, self.are_free, self._catalog = pins, shown, levels, are_free, catalog
        self.places, self.rows, self.is_done = list[int](), set[int](), False
        self.c: float | None = None
        self._counts = dict[str, int]()
        self._full = set[str]()  # values that have as many items as they may
        if query.max_per is not None:
            for row, _ in pins:
                self._count(catalog.features(row)[0].get(query.max_per[0], ()))

    @property
    def width(self) -> int:
        """Items to ask for at first."""
        return self.length if self.query.max_per is None else min(MAX_LENGTH, 2 * self.length)

    @property
    def taken(self) -> NDArray[np.int64]:
        """Rows that are in the list already."""
        return np.array([*(row for row, _ in self.pins), *self.rows], dtype=np.int64)

    def asked(self, selection: Selection) -> Sets:
        """What it may take: the usual items, and those of each level."""
        classes, levels = self.classes, self.levels
        if self.query.max_per is not None and self._full:
            classes = selection.without_values(classes, self.query.max_per[0], self._full)
        items, added = [one.eligible for one in classes], [one.boost for one in classes]
        marks = [BY_SCORE] * len(classes)
        if not (self.query.boosts or self._full):  # the levels have no other items
            n_levels = len(levels.items)
            return Sets([*items, *levels.items], added + [0.0] * n_levels, marks + levels.n_ratings)
        for n_ratings, level in zip(*levels, strict=True):
            for part in boosts.within(classes, level):
                items.append(part.eligible)
                added.append(part.boost)
                marks.append(n_ratings)
        return Sets(items, added, marks)

    def take(self, rows: Sequence[int], others: range, few: Sequence[int], n: int, *, are_all: bool) -> None:
        """Fill place after place until one needs an item that was not asked for yet.

        Args:
            rows: of all items that were ranked.
            others: the places among `rows` of the next items in order.
            few: the places of those to explore, in order.
            n: number of the others that were asked for; fewer are all that there are.
            are_all: whether `few` are all there are.
        """
        if self.query.max_per is None and not self.levels.items:
            self.places, self.is_done = list(others[: self.length]), True
            return
        left, left_few, n_before = iter(others), iter(few), len(self.places)
        while len(self.places) < self.length:
            is_free, place = bool(self.are_free) and self.are_free[len(self.places)], None
            if is_free:
                place = next((one for one in left_few if self._may_take(rows[one])), None)
                if place is None and not are_all:
                    return
            if place is None:
                place = next((one for one in left if self._may_take(rows[one])), None)
            if place is None:
                self.is_done = len(others) < n or len(self.places) == n_before
                return
            self.places.append(place)
        self.is_done = True

    def page(self, items: Items, first_pin: int, similarities: Similarities | None) -> Sequence[int]:
        """The places of the page of the finished list; its pins have places from `first_pin` on."""
        query, line = self.query, self.places
        end = query.offset + query.n
        if query.diversity and similarities is not None:  # the first items in the order of MMR; explored ones stay
            places = np.array(line, dtype=np.int64)
            at = np.flatnonzero(items.marks[places[: pool_of(query)]] == BY_SCORE)
            pool, n = places[at], min(end, len(at))
            order = diversity.reordered(items.scores[pool], similarities(items.rows[pool]), n, query.diversity)
            places[at] = pool[np.append(order, np.setdiff1d(np.arange(len(at)), order))]
            line = places.tolist()
        if self.pins:
            line = list(line)
            for pin, (_, place) in enumerate(self.pins, first_pin):
                line.insert(place - 1, pin)
        return line[query.offset : end]

    def _may_take(self, row: int) -> bool:
        """Whether `row` is not in the list and none of its values is full; then it counts."""
        if row in self.rows:
            return False
        if self.query.max_per is not None:
            values = self._catalog.features(row)[0].get(self.query.max_per[0], ())
            if not self._full.isdisjoint(values):
                return False
            self._count(values)
        self.rows.add(row)
        return True

    def _count(self, values: Sequence[str]) -> None:
        for value in values:
            self._counts[value] = self._counts.get(value, 0) + 1
            if self.query.max_per is not None and self._counts[value] >= self.query.max_per[1]:
                self._full.add(value)


class Rules:
    """Applies the rules of queries to what a source ranks. Belongs to the engine thread."""

    def __init__(self, history: History, selection: Selection, exploration: Exploration) -> None:
        self._history, self._selection, self._exploration = history, selection, exploration

    def lists(self, source: Source) -> Lists:
        """The lists of `source`, whose queries agree in whether they have rules and explore."""
        query = source.group.query
        if not (has_rules(query) or (query.explore and source.is_personal)):
            return source.lists()
        walks = self._begun(source)
        ranked, n_ranked, rows = list[Items](), 0, list[int]()
        left, width = walks, max(walk.width for walk in walks)
        while left:  # ask for the best items, then for more of those without a full value
            items, ends, are_all = _ranked(source, left, [walk.asked(self._selection) for walk in left], width)
            ranked.append(items)
            rows += items.rows.tolist()
            first = n_ranked
            for walk, (middle, end), has_all in zip(left, ends, are_all, strict=True):
                last, last_few = n_ranked + middle, n_ranked + end
                others, few = range(first, min(last, first + width)), range(last, last_few)
                walk.take(rows, others, few if has_all else few[:width], width, are_all=has_all)
                first = last_few
            n_ranked, left = len(rows), [walk for walk in left if not walk.is_done]
            width = min(MAX_LENGTH, DEEPER * width)
        if pins := [row for walk in walks for row, _ in walk.pins]:
            ranked.append(Items.of(pins, np.zeros(len(pins)), PINNED))
        items, pages, first_pin = _joined(ranked), list[Sequence[int]](), n_ranked
        for walk in walks:
            pages.append(walk.page(items, first_pin, source.similarities))
            first_pin += len(walk.pins)
        for at, walk in enumerate(walks):
            if walk.query.offset + walk.query.n > topn.MAX_N and not has_rules(walk.query):
                beyond = self._beyond(source, walk, items)
                pages[at] = [*pages[at], *range(len(items.rows), len(items.rows) + len(beyond.rows))]
                items = _joined([items, beyond])
        order = np.array(list(itertools.chain.from_iterable(pages)), dtype=np.int64)
        page_rows, scores, added, marks = items.part(order)
        return Lists(page_rows, scores, np.array(list(map(len, pages))), added, marks)

    def _begun(self, source: Source) -> list[Walk]:
        """A walk for each list, which has taken nothing yet."""
        history, walks, queries, users = self._history, list[Walk](), source.group.queries, source.group.users
        levels = [source.levels(at) for at in range(len(queries))]
        classes = of_each(self._selection.classes, queries)
        lengths = [length_of(one) if has_rules(one) else min(length_of(one), topn.MAX_N) for one in queries]
        are_free: list[list[bool]] = [[]] * len(queries)
        if any(own.items for own in levels):
            are_free = self._exploration.places(queries, users, max(lengths)).tolist()
        for at, query in enumerate(queries):
            pins = list[tuple[int, int]]()
            if query.pins:
                place_of = {row: place for item, place in query.pins if (row := history.items.row(item)) is not None}
                shown = source.may_show(at, np.array(list(place_of), dtype=np.int64)) if place_of else NO_ITEMS.rows
                pins = sorted(((row, place_of[row]) for row in shown.tolist()), key=lambda pin: pin[1])
            last, free = shown_to(history, users[at], query.rotate), are_free[at] if levels[at].items else []
            walks.append(Walk(at, query, lengths[at], classes[at], pins, last, levels[at], free, history.catalog))
        return walks

    def _beyond(self, source: Source, walk: Walk, items: Items) -> Items:
        """The part of a page beyond the first `topn.MAX_N` places, of which alone some may be for exploration."""
        query, places = walk.query, np.array(walk.places, dtype=np.int64)
        explored = items.rows[places[items.marks[places] != BY_SCORE]]
        first, end = max(query.offset, topn.MAX_N), query.offset + query.n
        ask = Ask(walk.at, [source.group.eligible[walk.at]], explored)
        rows, scores = source.best([ask], end - first, first - len(explored))
        return Items.of(rows[rows >= 0], scores[rows >= 0], BY_SCORE)


NO_ITEMS = Items.of([], np.zeros(0), BY_SCORE)


def _joined(parts: Sequence[Items]) -> Items:
    return parts[0] if len(parts) == 1 else Items(*map(np.concatenate, zip(*parts, strict=True)))


def _ranked(
    source: Source, walks: Sequence[Walk], asked: Sequence[Sets], n: int
) -> tuple[Items, list[list[int]], list[bool]]:
    """At least the `n` best items by score and boost of each set that the walks ask for; decides their c.

    Returns:
        (items, ends, are_all): the items of each walk follow each other: first the usual ones in order, of which ties
        go to the higher score without boost, then to the lower row; then those to explore, in their order. `ends` has
        the end of both parts. `are_all` says whether there are no others to explore.
    """
    asks, owners, added, marks = list[Ask](), list[int](), list[float](), list[int]()
    asks_of_shown, shown = list[Ask](), list[tuple[int, int, Shown]]()  # apart: each item has a boost of its own
    for place, (walk, sets) in enumerate(zip(walks, asked, strict=True)):
        taken = not_shown = walk.taken if walk.pins or walk.rows else NO_ITEMS.rows
        if len(walk.shown.rows):
            not_shown = np.append(taken, walk.shown.rows)
            for mark, classes in sets.classes:
                if len((lowered := walk.shown.within(classes)).rows):
                    asks_of_shown.append(Ask(walk.at, [lowered.eligible], taken))
                    shown.append((place, mark, lowered))
        asks.append(Ask(walk.at, sets.items, not_shown))
        owners += [place] * len(sets.items)
        added += sets.boosts
        marks += sets.marks
    rows, plain = source.best(asks, n)
    are_items = rows >= 0
    of_set = np.repeat(np.arange(len(owners)), np.add.reduce(are_items, axis=1))
    boost, scores = np.array(added)[of_set], plain[are_items]
    columns = [rows[are_items], scores + boost, boost, np.array(marks)[of_set], np.array(owners)[of_set], scores]
    if shown:
        n_shown = max(len(lowered.rows) for _, _, lowered in shown)
        for (place, mark, lowered), own_rows, best in zip(shown, *source.best(asks_of_shown, n_shown), strict=True):
            own, scores = own_rows[own_rows >= 0], best[own_rows >= 0]
            boost = lowered.boosts_of(own)
            constant = (np.full(len(own), one) for one in (mark, place))
            more = own, scores + boost, boost, *constant, scores
            columns = [np.append(*pair) for pair in zip(columns, more, strict=True)]
    items, of_walk, scores = Items(*columns[:4]), columns[4], columns[5]
    to_explore, are_all = items.marks != BY_SCORE, [True] * len(walks)
    part = 2 * of_walk + to_explore
    if shown or len(owners) > len(walks):
        values, second = items.scores, np.where(to_explore, 0.0, -scores)
        if any(walk.levels.items for walk in walks):
            few = np.flatnonzero(to_explore)
            c, sizes = leveling(of_walk[few], items.marks[few], items.scores[few], len(walks))
            are_all = (sizes < n).tolist()
            for walk, own_c in zip(walks, c.tolist(), strict=True):
                walk.c = own_c if walk.c is None else walk.c
            values = values.copy()  # with the bonus, which lists do not show
            values[few] += np.array([walk.c for walk in walks])[of_walk[few]] * bonus(items.marks[few])
        items = items.part(np.lexsort((items.rows, second, -values, part)))
    ends = np.bincount(part, minlength=2 * len(walks)).cumsum()
    return items, ends.reshape(-1, 2).tolist(), are_all
