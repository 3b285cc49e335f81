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
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.ranking import topn
from gpu.ranking.eligible import Eligible
from gpu.ratings import Rows
from service.engine.models.live_model import LiveModel
from service.engine.models.shelf import Hidden
from service.engine.queries import Recommend
from service.storage.events import StreamId

DAY_MS = 86_400_000
MAX_KEPT = 16  # sets of levels; a level takes I / 8 bytes

Ranked = tuple[NDArray[np.int32], NDArray[np.float32]]  # item rows, and their scores


class Lists(NamedTuple):
    """B lists to rank.

    Attributes:
        live_model: ranks all of them.
        users, rows: as in `topn.recommend`.
        exclude, candidates, eligible: as in `topn.recommend`.
        hidden, include_seen, min_ratings: of all lists, as in `LiveModel.recommend`.
    """

    live_model: LiveModel
    users: topn.Users
    rows: Rows
    exclude: Sequence[NDArray[np.int32]] | None
    candidates: Sequence[NDArray[np.int32] | None] | None
    eligible: Sequence[Eligible | None] | None
    hidden: Hidden
    include_seen: bool
    min_ratings: int

    def best(self, n: int, offset: int = 0) -> Ranked:
        """The `n` best items of each list after the first `offset`, and their scores; see `topn.recommend`."""
        return self.live_model.recommend(
            self.users,
            self.rows,
            n,
            self.hidden,
            offset=offset,
            include_seen=self.include_seen,
            min_ratings=self.min_ratings,
            exclude=self.exclude,
            candidates=self.candidates,
            eligible=self.eligible,
        )

    def at(self, where: Sequence[int]) -> Lists:
        """The lists with these indices; an index may occur several times."""
        chosen = np.array(where, dtype=np.int64)
        return self._replace(
            users=topn.Users(*(array[chosen] for array in self.users)),
            rows=topn.rows_of(self.rows, chosen),
            exclude=None if self.exclude is None else [self.exclude[b] for b in where],
            candidates=None if self.candidates is None else [self.candidates[b] for b in where],
            eligible=None if self.eligible is None else [self.eligible[b] for b in where],
        )


class Place(NamedTuple):
    """A place of a list: the row of its item, the score, and whether the item is explored."""

    item: int
    score: float
    is_explored: bool


class Page(NamedTuple):
    """A page of B lists.

    Attributes:
        items: int32 (B, n) item rows, padded with −1.
        scores: float32 (B, n), padded with −inf.
        are_explored: bool (B, n).
    """

    items: NDArray[np.int32]
    scores: NDArray[np.float32]
    are_explored: NDArray[np.bool_]

    @classmethod
    def empty(cls, n_lists: int, n: int) -> Page:
        """Only padding."""
        shape = n_lists, n
        return cls(np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32), np.zeros(shape, np.bool_))

    def fill(self, b: int, places: Sequence[Place]) -> None:
        """Set the first places of list `b`."""
        for column, values in zip(self, zip(*places, strict=True), strict=bool(places)):
            column[b, : len(places)] = values


class Level(NamedTuple):
    """The items to explore with this number of ratings."""

    n_ratings: int
    items: Eligible


class Exploration:
    """Ranks lists with `Recommend.explore` above 0. Call `look` before each batch of answers."""

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

    def page(
        self, lists: Lists, queries: Sequence[Recommend], users: Sequence[str | None], n: int, offset: int
    ) -> Page:
        """The `n` places of each list after the first `offset`. Only the first `topn.MAX_N` may be for exploration.

        Args:
            users: ids; None for an anonymous user. All anonymous users have the same places.
        """
        end, n_whole = offset + n, min(offset + n, topn.MAX_N)
        plain, page = _unpadded(lists.best(n_whole)), Page.empty(len(queries), n)
        for b, (query, levels) in enumerate(zip(queries, self._few_rated(lists, queries, n_whole), strict=True)):
            whole = _merged(plain[b], _by_bonus(levels), self.places(query, users[b], n_whole))
            beyond = _beyond(lists.at([b]), whole, max(offset, n_whole), end) if end > n_whole else []
            page.fill(b, whole[offset:] + beyond)
        return page

    def places(self, query: Recommend, user: str | None, n: int) -> list[bool]:
        """Whether each of the first `n` places is for exploration; `user`: see `page`."""
        phase = _phase(user, self._day)
        return [_is_for_exploration(place, query.explore, phase) for place in range(n)]

    def _few_rated(self, lists: Lists, queries: Sequence[Recommend], n: int) -> Iterator[list[tuple[int, Ranked]]]:
        """For each list, the number of ratings of each level and its `n` best items, if there are any."""
        eligible = lists.eligible or [None] * len(queries)
        levels = [
            self.levels(lists.live_model, query.explore_below, passing)
            for query, passing in zip(queries, eligible, strict=True)
        ]
        at = [b for b, own in enumerate(levels) for _ in own]
        asked = lists.at(at)._replace(eligible=[level.items for own in levels for level in own])
        ranked = iter(_unpadded(asked.best(n)) if at else ())
        for own in levels:
            found = [(level.n_ratings, next(ranked)) for level in own]
            yield [(n_ratings, best) for n_ratings, best in found if len(best[0])]

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


def _unpadded(ranked: Ranked) -> list[Ranked]:
    """The ranked items of each list without padding."""
    lengths = np.count_nonzero(ranked[0] >= 0, axis=1).tolist()
    return [(items[:n], scores[:n]) for n, items, scores in zip(lengths, *ranked, strict=True)]


def _by_bonus(levels: Sequence[tuple[int, Ranked]]) -> list[tuple[int, float]]:
    """Row and score of the items of all levels, by score + c / √(1 + ratings); ties to the lower row."""
    if not levels:
        return []
    c = leveling([(n_ratings, float(scores[0])) for n_ratings, (_, scores) in levels])
    items, scores = (np.concatenate(columns) for columns in zip(*(ranked for _, ranked in levels), strict=True))
    values = scores + np.repeat([bonus(c, n_ratings) for n_ratings, _ in levels], [len(one) for _, (one, _) in levels])
    order = np.lexsort((items, -values))
    return list(zip(items[order].tolist(), scores[order].tolist(), strict=True))


def _merged(plain: Ranked, few: Sequence[tuple[int, float]], are_free: Sequence[bool]) -> list[Place]:
    """The places of a list in order; fewer than wanted if there are no more items.

    Args:
        plain: at least as many of the best items as places are wanted, if there are as many.
        few: items to explore, the best first, as many.
        are_free: for each place whether it is for exploration. If no such item is left, it takes any other.
    """
    taken = set[int]()
    others = zip(*(column.tolist() for column in plain), strict=True)
    explored = iter(few)
    places = []
    for is_free in are_free:
        found = next((one for one in explored if one[0] not in taken), None) if is_free else None
        is_explored = found is not None
        found = found or next((one for one in others if one[0] not in taken), None)
        if found is None:
            break
        taken.add(found[0])
        places.append(Place(found[0], found[1], is_explored))
    return places


def _beyond(one: Lists, whole: Sequence[Place], first: int, end: int) -> list[Place]:
    """The places `first` to `end` of a list whose first `topn.MAX_N` places are `whole`."""
    explored = [place.item for place in whole if place.is_explored]
    left_out = np.array(explored, dtype=np.int32)
    exclude = [left_out if one.exclude is None else np.append(one.exclude[0], left_out)]
    (found,) = _unpadded(one._replace(exclude=exclude).best(end - first, first - len(explored)))
    return [
        Place(item, score, is_explored=False)
        for item, score in zip(*(column.tolist() for column in found), strict=True)
    ]
