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
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.ranking.eligible import Eligible
from service.engine.models.live_model import LiveModel
from service.engine.queries import Recommend
from service.storage.events import StreamId

DAY_MS = 86_400_000
MAX_KEPT = 16  # sets of levels; a level takes I / 8 bytes


class Levels(NamedTuple):
    """Items to explore, by their number of ratings, the fewest first.

    Attributes:
        n_ratings: of the items of each level.
        items: of each level.
    """

    n_ratings: list[int]
    items: list[Eligible]


NO_LEVELS = Levels([], [])


class Exploration:
    """Knows places and items for exploration. Call `look` before each batch of answers."""

    def __init__(self) -> None:
        self._state: Hashable = None
        self._day = 0
        self._levels: dict[Hashable, Levels] = {}

    def look(self, as_of: StreamId, position: StreamId) -> None:
        """Take in what the answers are as of. Its day decides which places are for exploration.

        Args:
            as_of: the last entry that every live model has learned.
            position: the last entry that the history has.
        """
        if self._state != (as_of, position):
            self._state, self._day = (as_of, position), as_of.ms // DAY_MS
            self._levels.clear()

    def places(self, queries: Sequence[Recommend], users: Sequence[str | None], n: int) -> NDArray[np.bool_]:
        """Whether each of the first `n` places of each list is for exploration, (B, n).

        Every (1 / share)-th is, on average. Where they begin depends on the user and on the day. All anonymous users
        (None) have the same places.
        """
        digests = (hashlib.blake2b(f"{self._day} {user or ''}".encode(), digest_size=7).digest() for user in users)
        phases = np.array([(int.from_bytes(digest) >> 3) / 2**53 for digest in digests])[:, None]  # 0 to below 1
        shares = np.array([query.explore for query in queries])[:, None]
        passed = np.floor(np.arange(n + 1) * shares + phases)
        are_free: NDArray[np.bool_] = passed[:, 1:] > passed[:, :-1]
        return are_free

    def levels(self, live_model: LiveModel, below: int, eligible: Eligible | None) -> Levels:
        """Items with a score and fewer than `below` ratings, by this number, the fewest first; all, or `eligible`."""
        key = live_model.version, below, eligible
        if key not in self._levels:
            counts, are_few = live_model.table.item_counts, live_model.have_few(below)
            if eligible is not None:
                are_few &= eligible.mask(len(are_few))
            if len(self._levels) >= MAX_KEPT:
                self._levels.clear()
            present = np.flatnonzero(np.bincount(counts[are_few])).tolist()
            self._levels[key] = Levels(present, [Eligible.of(are_few & (counts == n)) for n in present])
        return self._levels[key]


def bonus(n_ratings: NDArray[np.int64]) -> NDArray[np.float64]:
    """What is added to the scores of items with `n_ratings` when they are compared with others, divided by c."""
    added: NDArray[np.float64] = 1 / np.sqrt(1 + n_ratings)
    return added


def leveling(
    lists: NDArray[np.int64], n_ratings: NDArray[np.int64], scores: NDArray[np.float64], n_lists: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The c that levels the best scores of the numbers of ratings in each list, and the items of its largest level.

    `lists` says of each item in which list it is, 0 to below `n_lists`, as `n_ratings` and `scores` (L,).

    Returns:
        float64 and int64 (n_lists,); 0 for a list without items.
    """
    n_levels = int(n_ratings.max(initial=0)) + 1
    level, shape = lists * n_levels + n_ratings, (n_lists, n_levels)
    best = np.full(n_lists * n_levels, -np.inf)
    np.maximum.at(best, level, scores)
    sizes = np.bincount(level, minlength=len(best)).reshape(shape)
    best, has_items = best.reshape(shape), sizes > 0
    added, largest = bonus(np.arange(n_levels)), sizes.max(axis=1)
    width = added[has_items.argmax(axis=1)] - added[n_levels - 1 - has_items[:, ::-1].argmax(axis=1)]
    above = best.max(axis=1) - np.where(has_items, best, np.inf).min(axis=1)
    return np.divide(above, width, out=np.zeros(n_lists), where=(width > 0) & (largest > 0)), largest
