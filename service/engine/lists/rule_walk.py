"""`Walk`: one list with rules while it is made, place after place; see `service.engine.lists.ruled_lists`."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.ranking import diversity
from service.engine.lists.boosts import BoostClass
from service.engine.lists.exploration import Level, bonus, leveling
from service.engine.lists.rotation import NONE_SHOWN, Shown
from service.engine.queries import Ruled
from service.engine.queries.rules import MAX_LENGTH, length_of, pool_of

Similarities = Callable[[NDArray[np.int64]], NDArray[np.float64]]


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


NONE_RANKED = Ranked(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))


class Line(NamedTuple):
    """An item of a finished list; a pinned one has no score."""

    row: int
    score: float | None = None
    boost: float = 0.0
    is_explored: bool = False


class Supply(NamedTuple):
    """The next items for a list, in order.

    Attributes:
        ranked: the items.
        is_all: whether there are no more.
    """

    ranked: Ranked
    is_all: bool


class Walk:
    """One list while it is made.

    Attributes:
        classes: the items that it is made of.
        pinned: rows of its pins, which are not ranked.
        pins: (row, place) of each.
        shown: what the user was shown, which is ranked apart.
        levels, are_free: items to explore, and whether each place is for one of them; see `Exploration`.
        full: values of the tag of `max_per` that have as many items as they may.
        rows, is_done: the items taken, and whether there are enough, or no more.
    """

    def __init__(
        self,
        query: Ruled,
        classes: list[BoostClass],
        pinned: list[int],
        values_of: Callable[[int], Sequence[str]],
    ) -> None:
        self.query, self.classes, self.pinned = query, classes, pinned
        self.pins: list[tuple[int, int]] = []
        self.shown: Shown = NONE_SHOWN
        self.levels: Sequence[Level] = ()
        self.are_free: Sequence[bool] = ()
        self.full: set[str] = set()
        self.rows: list[int] = []
        self.is_done = False
        self._values_of, self._length = values_of, length_of(query)
        self._taken: list[Ranked] = []
        self._explored: set[int] = set()
        self._c: float | None = None
        self._counts: dict[str, int] = {}
        for row in pinned:
            self._count(row)

    @property
    def first_width(self) -> int:
        """Items to ask for at first."""
        return self._length if self.query.max_per is None else min(MAX_LENGTH, 2 * self._length)

    def by_bonus(self, levels: Sequence[tuple[int, Ranked]], n: int) -> Supply:
        """The next items to explore, from the `n` best of each number of ratings; the first call decides the bonus."""
        present = [(n_ratings, ranked) for n_ratings, ranked in levels if len(ranked.rows)]
        if self._c is None:
            self._c = leveling([(n_ratings, float(ranked.scores[0])) for n_ratings, ranked in present])
        if not present:
            return Supply(NONE_RANKED, is_all=True)
        joined = Ranked(*map(np.concatenate, zip(*(ranked for _, ranked in present), strict=True)))
        lengths = [len(ranked.rows) for _, ranked in present]
        added = np.repeat([bonus(self._c, n_ratings) for n_ratings, _ in present], lengths)
        ordered = joined.part(np.lexsort((joined.rows, -(joined.scores + added))))
        is_all = all(len(ranked.rows) < n for _, ranked in present)
        return Supply(ordered if is_all else ordered.part(slice(n)), is_all)

    def take(self, others: Supply, few: Supply) -> None:
        """Take items from the next ones in order, and from those to explore."""
        if self.levels:
            self._take_turns(others, few)
            return
        ranked = others.ranked
        if self.query.max_per is None:
            places = np.arange(min(self._length, len(ranked.rows)))
        else:
            wanted = self._length - len(self.rows)
            allowed = (place for place, row in enumerate(ranked.rows.tolist()) if self._allows(row))
            places = np.array([place for place, _ in zip(allowed, range(wanted), strict=False)], dtype=np.int64)
        taken = ranked.part(places)
        self._taken.append(taken)
        self.rows += taken.rows.tolist()
        is_over = others.is_all or not len(places) or self.query.max_per is None
        self.is_done = is_over or len(self.rows) >= self._length

    def _take_turns(self, others: Supply, few: Supply) -> None:
        """Fill place after place until one needs an item that was not asked for yet."""
        known = set(self.rows)
        left, left_few = (iter(enumerate(supply.ranked.rows.tolist())) for supply in (others, few))
        while len(self.rows) < self._length:
            is_free = self.are_free[len(self.rows)]
            source, found = few, self._next(left_few, known) if is_free else None
            if found is None and is_free and not few.is_all:
                return
            if found is None:
                source, found = others, self._next(left, known)
            if found is None:
                self.is_done = others.is_all
                return
            place, row = found
            self._taken.append(source.ranked.part(slice(place, place + 1)))
            self.rows.append(row)
            known.add(row)
            if source is few:
                self._explored.add(row)
        self.is_done = True

    def _next(self, places: Iterator[tuple[int, int]], known: Container[int]) -> tuple[int, int] | None:
        """The next (place, row) that the list may take."""
        return next(((place, row) for place, row in places if row not in known and self._allows(row)), None)

    def page(self, similarities: Similarities | None) -> list[Line]:
        """The page of the finished list."""
        ranked = Ranked(*map(np.concatenate, zip(NONE_RANKED, *self._taken, strict=True)))
        end = self.query.offset + self.query.n
        if self.query.diversity and similarities is not None:
            ranked = self._diverse(ranked, similarities, end)
        columns = (column.tolist() for column in ranked)
        lines = [Line(row, score, boost, row in self._explored) for row, score, boost in zip(*columns, strict=True)]
        for row, place in self.pins:
            lines.insert(place - 1, Line(row))
        return lines[self.query.offset : end]

    def _diverse(self, ranked: Ranked, similarities: Similarities, end: int) -> Ranked:
        """The items with the first of them in the order of MMR, as far as the page reaches; explored ones stay."""
        rows = ranked.rows[: pool_of(self.query)].tolist()
        places = np.array([place for place, row in enumerate(rows) if row not in self._explored], dtype=np.int64)
        pool = ranked.part(places)
        n = min(end, len(pool.rows))
        order = diversity.reordered(pool.scores, similarities(pool.rows), n, self.query.diversity)
        rest = np.setdiff1d(np.arange(len(places)), order)
        moved = np.arange(len(ranked.rows))
        moved[places] = places[np.append(order, rest)]
        return ranked.part(moved)

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
