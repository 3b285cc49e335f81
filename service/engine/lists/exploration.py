"""`Exploration`: gives some places of a list to items with few ratings. Belongs to the engine thread.

A list is made place by place. A place for exploration takes the item with fewer than `explore_below` ratings that has
the highest score + c / √(1 + ratings), any other place the item with the highest score. Neither takes an item that has
a place already. So the other places show the exact list without the explored items, and a page is a slice of the whole
list.

Items with the same number of ratings get the same bonus, so the best of them by score come first. c makes the best item
of the fewest ratings equal to the best of the most: docs/decisions/0075 compares it with other choices.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from gpu.ranking.eligible import Eligible
from service.engine.models.live_model import LiveModel
from service.engine.queries import Recommend
from service.storage.events import StreamId

DAY_MS = 86_400_000
MAX_KEPT = 16  # sets of levels; a level takes I / 8 bytes


class Level(NamedTuple):
    """The items to explore with this number of ratings."""

    n_ratings: int
    items: Eligible


class Exploration:
    """Knows places and items for exploration. Call `look` before each batch of answers."""

    def __init__(self) -> None:
        self._state: Hashable = None
        self._day = 0
        self._levels: dict[Hashable, list[Level]] = {}

    def look(self, as_of: StreamId, position: StreamId) -> None:
        """Take in what the answers are as of. Its day decides which places are for exploration.

        Args:
            as_of: the last entry that every live model has learned.
            position: the last entry that the history has.
        """
        if self._state != (as_of, position):
            self._state, self._day = (as_of, position), as_of.ms // DAY_MS
            self._levels.clear()

    def places(self, query: Recommend, user: str | None, n: int) -> list[bool]:
        """Whether each of the first `n` places is for exploration. All anonymous users (None) have the same places."""
        phase = _phase(user, self._day)
        return [_is_for_exploration(place, query.explore, phase) for place in range(n)]

    def levels(self, live_model: LiveModel, below: int, eligible: Eligible | None) -> list[Level]:
        """Items with a score and fewer than `below` ratings, by this number, the fewest first; all, or `eligible`."""
        key = live_model.version, below, eligible
        if key not in self._levels:
            counts, are_few = live_model.table.item_counts, live_model.have_few(below)
            if eligible is not None:
                are_few &= eligible.mask(len(are_few))
            if len(self._levels) >= MAX_KEPT:
                self._levels.clear()
            present = np.flatnonzero(np.bincount(counts[are_few])).tolist()
            self._levels[key] = [Level(n, Eligible.of(are_few & (counts == n))) for n in present]
        return self._levels[key]


def bonus(c: float, n_ratings: int) -> float:
    """What an item with so many ratings gets added to its score when it is compared with others to explore."""
    return c * (1 / math.sqrt(1 + n_ratings))


def leveling(bests: Sequence[tuple[int, float]]) -> float:
    """The c that levels the best scores (n_ratings, score) of numbers of ratings, the fewest first."""
    scores = [score for _, score in bests]
    width = bonus(1, bests[0][0]) - bonus(1, bests[-1][0]) if bests else 0.0
    return (max(scores) - min(scores)) / width if width else 0.0


def _phase(user: str | None, day: int) -> float:
    """Where the places of a user begin on that day, 0 to below 1."""
    digest = hashlib.blake2b(f"{day} {user or ''}".encode(), digest_size=7).digest()
    return (int.from_bytes(digest) >> 3) / 2**53


def _is_for_exploration(place: int, share: float, phase: float) -> bool:
    """Whether a place, from 0, is one of that share: every (1 / share)-th is, on average."""
    return math.floor((place + 1) * share + phase) > math.floor(place * share + phase)
