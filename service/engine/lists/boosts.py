"""`Boosts`: divides items into classes of equal boost: so boosted lists are exact. Belongs to the engine thread."""

from __future__ import annotations

import math
import operator
from typing import NamedTuple

import numpy as np

from gpu.ranking.eligible import WORD, Eligible
from service.engine.lists.filters import ItemFilters, Recent
from service.engine.queries import Ruled
from service.engine.state.history import History
from service.engine.state.row_set import Bits, n_words


class BoostClass(NamedTuple):
    """The items whose scores are boosted alike; None stands for all items."""

    eligible: Eligible | None
    boost: float


NO_CLASS = BoostClass(Eligible(np.zeros(1, dtype=np.uint32), 0), 0.0)


class _Made(NamedTuple):
    """Classes, and what they were made of."""

    classes: list[BoostClass]
    base: Eligible | None
    passing: list[Eligible]
    n_items: int


class Boosts:
    """Makes the classes of queries and keeps the last ones that were used.

    In a class the order of items is the one without boosts, so the best items of each class contain the best of all.
    """

    def __init__(self, history: History, filters: ItemFilters) -> None:
        self._history, self._filters = history, filters
        self._made = Recent[tuple[object, ...], _Made]()

    def classes(self, query: Ruled, base: Eligible | None) -> list[BoostClass]:
        """The classes with items, at most 2 to the number of boosts.

        Args:
            query: its boosts count.
            base: the items that pass its filter; None for all.

        Raises:
            InvalidRequest: the filter of a boost uses an unknown name.
        """
        if not query.boosts:
            return [BoostClass(base, 0.0)]
        passing = [self._filters.eligible(text, query.available) for text, _ in query.boosts]
        key, n_items = (query.filter, query.available, *query.boosts), len(self._history.items)
        made = self._made.get(key)
        same = made is not None and all(map(operator.is_, [made.base, *made.passing], [base, *passing]))
        if made is None or made.n_items != n_items or not same:
            adds = [add for _, add in query.boosts]
            made = self._made.put(key, _Made(_classes(base, passing, adds, n_items), base, passing, n_items))
        return made.classes


def _classes(base: Eligible | None, passing: list[Eligible], adds: list[float], n_items: int) -> list[BoostClass]:
    """The classes by boost; those of different filters whose sums are equal are one."""
    all_bits = _all(n_items) if base is None else base.bits
    parts: list[tuple[Bits, list[float]]] = [(all_bits, [])]
    for eligible, add in zip(passing, adds, strict=True):
        bits = np.zeros_like(all_bits)
        bits[: len(eligible.bits)] = eligible.bits[: len(bits)]
        halves = [((own & bits, [*sums, add]), (own & ~bits, sums)) for own, sums in parts]
        parts = [part for pair in halves for part in pair if part[0].any()]
    joined: dict[float, Bits] = {}
    for bits, sums in parts:
        boost = math.fsum(sums)
        joined[boost] = joined[boost] | bits if boost in joined else bits
    if not joined:  # nothing passes the filter
        return [BoostClass(base, 0.0)]
    return [BoostClass(_eligible(bits), boost) for boost, bits in joined.items()]


def without(classes: list[BoostClass], bits: Bits, n_items: int) -> list[BoostClass]:
    """The classes without the items in `bits`; new items are in none."""
    left = []
    for eligible, boost in classes:
        own = (_all(n_items) if eligible is None else eligible.bits).copy()
        shared = min(len(own), len(bits))
        own[:shared] &= ~bits[:shared]
        left.append(BoostClass(_eligible(own), boost))
    return left


def within(classes: list[BoostClass], base: Eligible) -> list[BoostClass]:
    """The parts of the classes that are in `base`, without empty ones; at least one class."""
    parts = []
    for eligible, boost in classes:
        own = base
        if eligible is not None:
            shared = min(len(eligible.bits), len(base.bits))
            own = _eligible(eligible.bits[:shared] & base.bits[:shared])
        if own.count:
            parts.append(BoostClass(base if own.count == base.count else own, boost))  # a device knows it by object
    return parts or [NO_CLASS]


def _eligible(bits: Bits) -> Eligible:
    return Eligible(bits, int(np.bitwise_count(bits).sum()))


def _all(n_items: int) -> Bits:
    bits = np.full(n_words(n_items), -1, dtype=np.int32).view(np.uint32)
    if n_items % WORD:
        bits[-1] = np.uint32((1 << n_items % WORD) - 1)
    return bits
