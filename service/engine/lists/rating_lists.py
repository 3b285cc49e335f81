"""`RatingLists`: pages of the ratings of an item, and of all ratings. Belongs to the engine thread.

They use no compiled kernel, because a service may need them that has no model.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from gpu.data.ratings import Rows
from service.base.errors import InvalidRequest
from service.engine.errors import UnknownItem, UnknownUser
from service.engine.lists.listing import page
from service.engine.queries.rating_queries import (
    AllRatings,
    FindUser,
    Found,
    ItemRatings,
    ListedRating,
    RatingOfItem,
    RatingPage,
    RatingsOfItem,
)
from service.engine.state.history import History
from service.engine.state.positions import position_of
from service.storage.events import StreamId

LEAST_LOOKED_AT = 4096  # ratings of an item that are looked up together, in a millisecond
USERS_PER_LOOK = 4096  # users whose ratings are looked at together
MOST_LOOKED_AT = 200_000  # ratings; a query that looks at more answers with fewer than wanted, and a cursor
_CURSOR = re.compile(r"([0-9a-f]{16})(?:\.(0|[1-9]\d{0,9}))?", re.ASCII)


class RatingLists:
    """Answers queries for ratings that are not those of one user."""

    def __init__(self, history: History) -> None:
        self._history = history

    def of_item(self, query: ItemRatings, as_of: str) -> RatingsOfItem:
        """A page of the ratings of an item, newest first; see `_newest`."""
        history, row = self._history, self._history.items.row(query.item)
        if row is None:
            raise UnknownItem(f"item {query.item!r} has neither ratings nor attributes")
        table = history.table
        users, places = (column[query.offset :] for column in self._newest(row, query.offset + query.n))
        columns = history.users.ids(users.tolist()), shortest(table.rows.values[places])
        ratings = list(map(RatingOfItem, *columns, table.timestamps[places].tolist()))
        return RatingsOfItem(query.item, int(table.item_counts[row]), ratings, as_of)

    def _newest(self, item: int, n: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """(users, places in the table) of the `n` newest ratings of an item.

        No rating is newer than the last one of its user. So the ratings of those users are looked up who have rated
        last, and of more of them as long as another could have a newer one. It takes 0.01 µs for each rater, and 0.4 µs
        if nearly all of them have rated other items since. To keep raters in order of time would cost every rating 8
        bytes, and a search for its old place.
        """
        table = self._history.table
        users = table.raters_as_stored(item)
        last_ms, n_looked_at = self._history.last_rated_ms[users], max(n, LEAST_LOOKED_AT)
        while n_looked_at < len(users):
            order = np.argpartition(last_ms, len(users) - n_looked_at)[-n_looked_at:]
            newest = self._ordered(item, users[order], n)
            # Below this position are all ratings of the others, who have rated last at this millisecond or before: one
            # has 2^21 positions.
            border = position_of(StreamId(int(last_ms[order[0]]) + 1, 0))
            if table.positions[newest[1][-1]] >= border:
                return newest
            n_looked_at *= 8
        return self._ordered(item, users, n)

    def _ordered(self, item: int, users: NDArray[np.int32], n: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The `n` newest ratings of an item by `users`, newest first."""
        places = places_of(self._history.table.rows, users, item)
        newest = np.argsort(-self._history.table.positions[places])[:n]
        return users[newest], places[newest]

    def found(self, query: FindUser, as_of: str) -> Found:
        """Whether there is a user."""
        if self._history.users.row(query.user) is None:
            raise UnknownUser(f"user {query.user!r} has neither ratings nor events")
        return Found(query.user, as_of)

    def all(self, query: AllRatings, as_of: str) -> RatingPage:
        """A page of all ratings between two values, by the keys of their users and then by item."""
        history, table = self._history, self._history.table
        after, parts = _Place.parse(query.cursor), list[NDArray[np.int64]]()
        n_listed = n_looked_at = 0
        while n_listed < query.n and n_looked_at < MOST_LOOKED_AT:
            users, places, more = self._next(after)
            n_looked_at += len(places)
            values = table.rows.values[places]
            keep = np.ones(len(places), dtype=np.bool_)
            if query.below is not None:
                keep &= values < query.below
            if query.above is not None:
                keep &= values > query.above
            wanted = np.flatnonzero(keep)[: query.n - n_listed]
            parts.append(np.stack([users[wanted], places[wanted]]))
            n_listed += len(wanted)
            if n_listed == query.n:
                user, place = parts[-1][:, -1].tolist()
                after = _Place(int(history.users.keys[user]), int(table.rows.items[place]))
                break
            if more is None:
                after = None
                break
            after = more
        users, places = np.concatenate(parts, axis=1) if parts else np.zeros((2, 0), dtype=np.int64)
        ids = history.users.ids(users.tolist()), history.items.ids(table.rows.items[places].tolist())
        numbers = shortest(table.rows.values[places]), table.timestamps[places].tolist()
        return RatingPage(list(map(ListedRating, *ids, *numbers)), None if after is None else str(after), as_of)

    def _next(self, after: _Place | None) -> tuple[NDArray[np.int64], NDArray[np.int64], _Place | None]:
        """The (users, places in the table) of the next users' ratings, and the place after them; None at the end."""
        history = self._history
        users, rows = history.users, history.table.rows
        cursor = None if after is None else after.cursor
        lengths = rows.lengths
        listed = page(users.keys, len(users), lambda found: lengths[found] > 0, USERS_PER_LOOK, cursor)
        ends = np.cumsum(lengths[listed.rows])
        n_kept = max(int(np.searchsorted(ends, MOST_LOOKED_AT, side="right")), 1)
        kept, counts = listed.rows[:n_kept], lengths[listed.rows[:n_kept]]
        owners = np.repeat(kept, counts)
        first = rows.starts[kept] - ends[:n_kept] + counts
        places = np.repeat(first, counts) + np.arange(len(owners))
        if after is not None:
            is_done = (users.keys[owners] == np.uint64(after.key)) & (rows.items[places] <= after.item)
            owners, places = owners[~is_done], places[~is_done]
        is_last = listed.next is None and n_kept >= len(listed.rows)
        return owners, places, None if is_last else _Place(int(users.keys[kept[-1]]), _ALL_ITEMS)


_ALL_ITEMS = 2**31 - 1  # no item has a higher row


class _Place:
    """The last listed rating: the key of its user, and the row of its item."""

    def __init__(self, key: int, item: int) -> None:
        self.key, self.item = key, item

    @classmethod
    def parse(cls, cursor: str | None) -> _Place | None:
        """The place that a cursor names; None for None."""
        if cursor is None:
            return None
        match = _CURSOR.fullmatch(cursor)
        if match is None or int(match[2] or 0) >= _ALL_ITEMS:
            raise InvalidRequest(f"Invalid cursor: expected `next` of an earlier page, got {cursor[:64]!r}")
        return cls(int(match[1], 16), _ALL_ITEMS if match[2] is None else int(match[2]))

    def __str__(self) -> str:
        return f"{self.key:016x}" if self.item == _ALL_ITEMS else f"{self.key:016x}.{self.item}"

    @property
    def cursor(self) -> str | None:
        """The cursor of `listing.page` after the user, or before one who may have further ratings."""
        if self.item == _ALL_ITEMS:
            return f"{self.key:016x}"
        return None if self.key == 0 else f"{self.key - 1:016x}"


def places_of(rows: Rows, users: NDArray[np.integer], item: int) -> NDArray[np.int64]:
    """Index into `rows.items` of the rating of `item` by each of `users`, (B,), who have all rated it; int64 (B,)."""
    low: NDArray[np.int64] = rows.starts[users].astype(np.int64)
    high = low + rows.lengths[users]
    while (is_open := low < high).any():  # a binary search in all rows at once
        middle = (low + high) // 2
        is_below = is_open.copy()
        is_below[is_open] = rows.items[middle[is_open]] < item
        low = np.where(is_below, middle + 1, low)
        high = np.where(is_open & ~is_below, middle, high)
    return low


def shortest(values: NDArray[np.float32]) -> list[float]:
    """`values` as the shortest decimals that round to them: 4.1, and not 4.099999904632568."""
    distinct, inverse = np.unique(values, return_inverse=True)
    decimals = np.array([float(str(value)) for value in distinct], dtype=np.float64)
    numbers: list[float] = decimals[inverse].tolist()
    return numbers
