"""`Rules`: makes lists of what a source ranks, place by place, by the rules of their queries.

The rules are applied to the list of all items, in this order: a boost is added to each score, and showings lower it;
the list is made place by place, `max_per` skips items with a full value, and places for exploration take items with few
ratings; `diversity` reorders the others at the beginning; pins are put in at their places. A page is a slice of the
result. Without rules a list is what the source ranks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.ranking import diversity, topn
from service.engine.lists import boosts
from service.engine.lists.boosts import BoostClass
from service.engine.lists.exploration import Exploration, Level, leveling
from service.engine.lists.rotation import Rotation, Shown
from service.engine.lists.selection import Selection
from service.engine.lists.sources import Ask, Lists, Similarities, Source
from service.engine.queries import Ruled
from service.engine.queries.batches import of_each
from service.engine.queries.rules import MAX_LENGTH, has_rules, length_of, pool_of
from service.engine.state.history import History

DEEPER = 4  # times as many items are asked for when full values have shortened a list
BY_SCORE, PINNED = -1, -2  # marks


class Ranked(NamedTuple):
    """Items of one list.

    Attributes:
        rows: int64 (B,).
        scores: float64 (B,), with boosts; a pin has none.
        boosts: float64 (B,).
        marks: int64 (B,), why each item is at its place: `BY_SCORE`, `PINNED`, or, if it is explored, its number of
            ratings.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    boosts: NDArray[np.float64]
    marks: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[int] | NDArray[np.int64], scores: NDArray[np.float64], mark: int) -> Ranked:
        """Items with the same mark, without boosts."""
        n = len(rows)
        return cls(np.array(rows, dtype=np.int64), scores, np.zeros(n), np.full(n, mark))

    @classmethod
    def joined(cls, parts: Sequence[Ranked]) -> Ranked:
        """All items, those of each part together; expects at least one part."""
        return parts[0] if len(parts) == 1 else cls(*map(np.concatenate, zip(*parts, strict=True)))

    def part(self, places: NDArray[np.int64] | NDArray[np.bool_] | list[int] | slice) -> Ranked:
        """The items at these places."""
        return Ranked(self.rows[places], self.scores[places], self.boosts[places], self.marks[places])


class Walk:
    """One list while it is made.

    Attributes:
        at, query: its place in the source, and what was asked for.
        pinned, shown: rows of its pins, which are not ranked; what the user was shown, which is ranked apart.
        levels: what it may explore.
        rows, is_done: the items taken, and whether there are enough, or no more.
    """

    def __init__(
        self,
        at: int,
        query: Ruled,
        length: int,
        classes: list[BoostClass],
        pins: Sequence[tuple[int, int]],
        shown: Shown,
        levels: Sequence[Level],
        are_free: Sequence[bool],
        values_of: Callable[[int], Sequence[str]],
    ) -> None:
        """Begin a list of `length` items.

        Args:
            at, query, shown, levels: see the class.
            length: items to take.
            classes: the items that it is made of.
            pins: (row, place) of each, in order of places.
            are_free: for each place whether it is for exploration.
            values_of: the values of a row that `max_per` counts.
        """
        self.at, self.query, self.shown, self.levels = at, query, shown, levels
        self.pinned = [row for row, _ in pins]
        self.rows: list[int] = []
        self._taken: list[Ranked] = []
        self.is_done = False
        self._length, self._classes = length, classes
        self._pins, self._are_free, self._values_of = pins, are_free, values_of
        self._counts: dict[str, int] = {}
        self._full: set[str] = set()  # values that have as many items as they may
        self._c: float | None = None
        for row in self.pinned:
            self._count(row)

    @property
    def width(self) -> int:
        """Items to ask for at first."""
        return self._length if self.query.max_per is None else min(MAX_LENGTH, 2 * self._length)

    @property
    def ranked(self) -> Ranked:
        """The items taken, of a list that is done."""
        return Ranked.joined(self._taken)

    def asked(self, selection: Selection) -> list[tuple[int, list[BoostClass]]]:
        """The items that it may take, with their marks: the usual ones, and those of each level."""
        classes = self._classes
        if self.query.max_per is not None and self._full:
            classes = selection.without_values(classes, self.query.max_per[0], self._full)
        few = [
            (level.n_ratings, boosts.within(classes, level.items))
            if self.query.boosts or self._full  # else the level has no other items
            else (level.n_ratings, [BoostClass(level.items, 0.0)])
            for level in self.levels
        ]
        return [(BY_SCORE, classes), *few]

    def take(self, others: Ranked, few: Ranked, n: int) -> None:
        """Fill place after place until one needs an item that was not asked for yet.

        Args:
            others: the next items in order.
            few: the best items of each level, those of a level together.
            n: number of the others, and of each level, that were asked for; fewer are all that there are.
        """
        if self.query.max_per is None and not self.levels:
            self._taken, self.is_done = [others.part(slice(self._length))], True
            return
        order, are_all = self._by_bonus(few, n)
        both = Ranked.joined([others, few])
        rows, known, places = both.rows.tolist(), set(self.rows), list[int]()
        left, left_few = iter(range(len(others.rows))), iter((len(others.rows) + order).tolist())

        def first_of(left: Iterator[int]) -> int | None:
            return next((place for place in left if rows[place] not in known and self._allows(rows[place])), None)

        while len(self.rows) < self._length:
            is_free = bool(self.levels) and self._are_free[len(self.rows)]
            place = first_of(left_few) if is_free else None
            if place is None and is_free and not are_all:
                break
            place = first_of(left) if place is None else place
            if place is None:
                self.is_done = len(others.rows) < n or not places
                break
            places.append(place)
            self.rows.append(rows[place])
            known.add(rows[place])
        else:
            self.is_done = True
        self._taken.append(both.part(places))

    def page(self, similarities: Similarities | None) -> Ranked:
        """The page of the finished list, as far as its length."""
        ranked, query = self.ranked, self.query
        end = query.offset + query.n
        if query.diversity and similarities is not None:  # the first items in the order of MMR; explored ones stay
            places = np.flatnonzero(ranked.marks[: pool_of(query)] == BY_SCORE)
            pool = ranked.part(places)
            n = min(end, len(places))
            order = diversity.reordered(pool.scores, similarities(pool.rows), n, query.diversity)
            moved = np.arange(len(ranked.rows))
            moved[places] = places[np.append(order, np.setdiff1d(np.arange(len(places)), order))]
            ranked = ranked.part(moved)
        if not self._pins:
            return ranked.part(slice(query.offset, end))
        line = list(range(len(ranked.rows)))
        for pin, (_, place) in enumerate(self._pins, len(line)):
            line.insert(place - 1, pin)
        pins = Ranked.of(self.pinned, np.zeros(len(self.pinned)), PINNED)
        return Ranked.joined([ranked, pins]).part(line[query.offset : end])

    def _by_bonus(self, few: Ranked, n: int) -> tuple[NDArray[np.int64], bool]:
        """The places of the next items to explore, in order, and whether they are all; the first call decides c."""
        if not len(few.rows):
            self._c = self._c or 0.0
            return np.zeros(0, dtype=np.int64), True
        if self._c is None:
            firsts = np.flatnonzero(few.marks[1:] != few.marks[:-1]) + 1
            firsts = np.append(0, firsts)
            best = np.maximum.reduceat(few.scores, firsts)
            self._c = leveling(list(zip(few.marks[firsts].tolist(), best.tolist(), strict=True)))
        order = np.lexsort((few.rows, -(few.scores + self._c * (1 / np.sqrt(1 + few.marks)))))
        are_all = bool(np.bincount(few.marks).max() < n)
        return order if are_all else order[:n], are_all

    def _allows(self, row: int) -> bool:
        """Whether none of the values of `row` is full; then it counts."""
        if self.query.max_per is None:
            return True
        if not self._full.isdisjoint(self._values_of(row)):
            return False
        self._count(row)
        return True

    def _count(self, row: int) -> None:
        if self.query.max_per is None:
            return
        for value in self._values_of(row):
            self._counts[value] = self._counts.get(value, 0) + 1
            if self._counts[value] >= self.query.max_per[1]:
                self._full.add(value)


class Rules:
    """Applies the rules of plans to what a source ranks. Belongs to the engine thread."""

    def __init__(self, history: History, selection: Selection, exploration: Exploration) -> None:
        self._history, self._selection, self._rotation = history, selection, Rotation(history)
        self._exploration = exploration

    def lists(self, source: Source) -> Lists:
        """The lists of the plans of `source`, which agree in whether they have rules and explore."""
        query = source.plans[0].query
        if not (has_rules(query) or (query.explore and source.is_personal)):
            return source.lists()
        walks = self._begun(source)
        left, width = walks, max(walk.width for walk in walks)
        while left:  # ask for the best items, then for more of those without a full value
            parts = [walk.asked(self._selection) for walk in left]
            usual = _best(source, left, [own[:1] for own in parts], width)
            few = [ranked.part(slice(0)) for ranked in usual]
            if any(walk.levels for walk in left):  # apart: a level has few items, which are ranked faster alone
                few = _best(source, left, [own[1:] for own in parts], width)
            for walk, ranked, to_explore in zip(left, usual, few, strict=True):
                walk.take(ranked, to_explore, width)
            left = [walk for walk in left if not walk.is_done]
            width = min(MAX_LENGTH, DEEPER * width)
        pages = [walk.page(source.similarities) for walk in walks]
        for at, walk in enumerate(walks):
            if walk.query.offset + walk.query.n > topn.MAX_N and not has_rules(walk.query):
                pages[at] = Ranked.joined([pages[at], self._beyond(source, walk)])
        width = max(len(page.rows) for page in pages)
        rows = np.full((len(pages), width), -1, dtype=np.int32)
        scores, added, marks = np.zeros(rows.shape), np.zeros(rows.shape), np.full(rows.shape, BY_SCORE)
        for at, page in enumerate(pages):
            n = len(page.rows)
            rows[at, :n], scores[at, :n], added[at, :n], marks[at, :n] = page
        return Lists(rows, scores, [0] * len(pages), added, marks)

    def _begun(self, source: Source) -> list[Walk]:
        """A walk for each list, which has taken nothing yet."""
        history, walks = self._history, []
        classes = of_each(self._selection.classes, [plan.query for plan in source.plans])
        for at, (plan, own) in enumerate(zip(source.plans, classes, strict=True)):
            query = plan.query
            place_of = {row: place for item, place in query.pins if (row := history.items.row(item)) is not None}
            pins = np.array(list(place_of), dtype=np.int64)
            pins = source.may_show(at, pins) if len(pins) else pins
            by_place = sorted(((row, place_of[row]) for row in pins.tolist()), key=lambda pin: pin[1])
            shown = self._rotation.shown(query, plan.user)
            length = length_of(query) if has_rules(query) else min(length_of(query), topn.MAX_N)
            levels = source.levels(at)
            are_free = self._exploration.places(query, plan.user, length) if levels else ()
            walks.append(Walk(at, query, length, own, by_place, shown, levels, are_free, self._values_of(query)))
        return walks

    def _values_of(self, query: Ruled) -> Callable[[int], Sequence[str]]:
        """The values of a row that `max_per` counts."""
        if query.max_per is None:
            return lambda row: ()
        tag = query.max_per[0]
        return lambda row: self._history.catalog.features(row)[0].get(tag, ())

    def _beyond(self, source: Source, walk: Walk) -> Ranked:
        """The part of a page beyond the first `topn.MAX_N` places, of which alone some may be for exploration."""
        query, explored = walk.query, walk.ranked.rows[walk.ranked.marks != BY_SCORE]
        first, end = max(query.offset, topn.MAX_N), query.offset + query.n
        ask = Ask(walk.at, self._selection.eligible(query), explored)
        rows, scores = source.best([ask], end - first, first - len(explored))
        is_item = rows >= 0
        return Ranked.of(rows[is_item], scores[is_item], BY_SCORE)


def _best(
    source: Source, walks: Sequence[Walk], parts: Sequence[Sequence[tuple[int, list[BoostClass]]]], n: int
) -> list[Ranked]:
    """At least the `n` best items by score and boost of each part of each walk, a mark and classes.

    Those of a walk with one part are in order: ties go to the higher score without boost, then to the lower row. Those
    of several parts are in the order of the parts.
    """
    asks, ends, marks, added = list[Ask](), [0], list[int](), list[float]()
    asks_of_shown, shown = list[Ask](), list[tuple[int, int, Shown]]()  # apart: each item has a boost of its own
    for place, (walk, own_parts) in enumerate(zip(walks, parts, strict=True)):
        out = np.array([*walk.pinned, *walk.rows], dtype=np.int64)
        not_shown = np.append(out, walk.shown.rows) if len(walk.shown.rows) else out
        for mark, classes in own_parts:
            asks += [Ask(walk.at, one.eligible, not_shown) for one in classes]
            added += [one.boost for one in classes]
            marks += [mark] * len(classes)
            if len(walk.shown.rows) and len((lowered := walk.shown.within(classes)).rows):
                asks_of_shown.append(Ask(walk.at, lowered.eligible, out))
                shown.append((place, mark, lowered))
        ends.append(len(asks))
    rows, plain = source.best(asks, n)
    are_items = rows >= 0
    lengths = np.count_nonzero(are_items, axis=1)
    boost = np.repeat(added, lengths)
    columns = rows[are_items], plain[are_items] + boost, boost, np.repeat(marks, lengths), plain[are_items]
    bounds = np.append(0, np.cumsum(lengths))[ends].tolist()
    found: list[tuple[NDArray[Any], ...]] = [
        tuple([column[first:last] for column in columns]) for first, last in itertools.pairwise(bounds)
    ]
    if shown:
        width = max(len(lowered.rows) for _, _, lowered in shown)
        for (place, mark, lowered), own, best in zip(shown, *source.best(asks_of_shown, width), strict=True):
            items, scores = own[own >= 0], best[own >= 0]
            boost = lowered.boosts_of(items)
            more = items, scores + boost, boost, np.full(len(items), mark), scores
            found[place] = tuple(map(np.append, found[place], more))
    with_shown = {place for place, _, _ in shown}
    lists = []
    for place, (*own_columns, scores) in enumerate(found):
        ranked = Ranked(*own_columns)
        if len(parts[place]) > 1 and place in with_shown:
            ranked = ranked.part(np.argsort(ranked.marks, kind="stable"))
        elif (ends[place + 1] - ends[place] > 1 and len(parts[place]) == 1) or place in with_shown:
            ranked = ranked.part(np.lexsort((ranked.rows, -scores, -ranked.scores))[:n])
        lists.append(ranked)
    return lists
