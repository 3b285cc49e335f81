"""What-if: the parameters of a user with ratings that are not stored, in addition to the stored ones or without any.

The result is that of a refit of a user who really has these ratings: a fold-in of the same row, by the key of the user.
Learning would also change items (refits of new items, and of trained items that have gained many ratings). This is left
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.decay import weights_in
from gpu.data.rating_table import times_of
from gpu.data.ratings import Rows
from gpu.data.refit_rules import MAX_RATINGS_OF_USERS
from gpu.online.reading import ANONYMOUS_KEY, Reading
from gpu.ranking.requests import Users
from service.base.errors import InvalidRequest
from service.engine.models.live_model import LiveModel
from service.engine.queries import Recommend
from service.engine.state.history import History
from service.engine.state.id_table import key_of

SMALLEST_WEIGHT = 2.0**-60  # of a rating far back in order: with 0 it would not count as a rating


class UserRow(NamedTuple):
    """What a user would have in a table.

    Attributes:
        items: int32 (B,), ascending.
        values: float32 (B,), ratings or strengths.
        seconds: float64 (B,), their times.
        order: int64 (B,), distinct; the newest has the highest.
    """

    items: NDArray[np.int32]
    values: NDArray[np.float32]
    seconds: NDArray[np.float64]
    order: NDArray[np.int64]

    def where(self, chosen: NDArray[Any]) -> UserRow:
        """The ratings that a mask (B,), or places, name."""
        return UserRow(self.items[chosen], self.values[chosen], self.seconds[chosen], self.order[chosen])


class Extra(NamedTuple):
    """Ratings over the stored ones, of E distinct items.

    Attributes:
        items: int32 (E,), in order of their ratings.
        ratings: float32 (E,); NaN removes the stored one.
        seconds: float64 (E,), their times.
        unknown: further items.
    """

    items: NDArray[np.int32]
    ratings: NDArray[np.float32]
    seconds: NDArray[np.float64]
    unknown: list[str]


class Imagined(NamedTuple):
    """A user with extra ratings.

    Attributes:
        users, rows: as `LiveModel.recommend` takes them.
        read: the ratings that the parameters come from.
        weights: float32 (B,), of `read`; None: 1.
        kept_out: further items to keep out of the list, as the only element; None if there are no events.
    """

    users: Users
    rows: Rows
    read: UserRow
    weights: NDArray[np.float32] | None
    kept_out: list[NDArray[np.int32]] | None


class WhatIf:
    """Answers for users as if they had rated what a query says."""

    def __init__(self, history: History) -> None:
        self._history = history

    def ratings_of(self, query: Recommend) -> Extra:
        """The ratings of `query`; of several of one item the last counts. No time is later than the last entry's."""
        ratings, now_s = query.ratings or (), self._history.position.ms / 1000
        timestamps: Sequence[float | None] = query.timestamps or [None] * len(ratings)
        last: dict[str, tuple[float, float]] = {}
        for (item, value), timestamp in zip(ratings, timestamps, strict=True):
            last.pop(item, None)  # so that the item takes the place of its last rating
            seconds = now_s if timestamp is None else min(timestamp, now_s)
            last[item] = (np.nan if value is None else value), seconds
        rows = {item: row for item in last if (row := self._history.items.row(item)) is not None}
        items = np.array(list(rows.values()), dtype=np.int32)
        values = np.array([last[item][0] for item in rows], dtype=np.float32)
        seconds_of_items = np.array([last[item][1] for item in rows])
        return Extra(items, values, seconds_of_items, [item for item in last if item not in rows])

    def seen(self, user: int | None, extra: Extra) -> NDArray[np.int32]:
        """Items of which the user would have ratings, or events that say more than that they were shown."""
        return self._merged(user, extra, has_strengths=True).items

    def imagined(self, live_model: LiveModel, user: int | None, query: Recommend, extra: Extra) -> Imagined | None:
        """The user of `query`, who has the row `user`, with `extra`; None if the model knows none of the items.

        Raises:
            InvalidRequest: the model cannot weigh ratings of a user.
        """
        if query.order_half_life is not None and not live_model.takes_weights:
            raise InvalidRequest(
                "Invalid order_half_life: expected a model that weighs the ratings of a user (als-implicit), got"
                f" {live_model.name!r}: leave it out, or name another live model"
            )
        row = self._merged(user, extra, has_strengths=live_model.learns_events)
        if not live_model.is_personal(row.items):
            return None
        key = ANONYMOUS_KEY if query.user is None else np.uint64(key_of(query.user))
        is_read = None
        if len(row.items) > MAX_RATINGS_OF_USERS:
            is_read = row.order >= np.partition(row.order, -MAX_RATINGS_OF_USERS)[-MAX_RATINGS_OF_USERS]
        weights = _weights(live_model, row, query.order_half_life)
        users, rows = live_model.fold_in(row.items, row.values, Reading(key, is_read, weights))
        read = row
        if is_read is not None:
            read, weights = row.where(is_read), None if weights is None else weights[is_read]
        return Imagined(users, rows, read, weights, self._kept_out(live_model, user, query, extra))

    def _kept_out(
        self, live_model: LiveModel, user: int | None, query: Recommend, extra: Extra
    ) -> list[NDArray[np.int32]] | None:
        """Items that events keep out of the list, see `LiveModel.kept_out`."""
        if user is None or not self._history.strengths.has_events:
            return None
        rotates = query.rotate is not None
        kept_out = live_model.kept_out(user, include_seen=query.include_seen, rotates=rotates)
        removed = extra.items[np.isnan(extra.ratings)]
        no_ratings = np.full(len(removed), np.nan, dtype=np.float32)
        left, _, have_events = self._history.strengths.with_ratings(user, removed, no_ratings, no_ratings.astype(float))
        stay = ~np.isnan(left) if rotates else have_events
        return [kept_out[~np.isin(kept_out, removed[~stay])]]

    def _merged(self, user: int | None, extra: Extra, *, has_strengths: bool) -> UserRow:
        """What the user would have in the table of strengths, or in that of ratings."""
        items, values, seconds, _ = extra
        stored = UserRow(items[:0], values[:0], seconds[:0], np.zeros(0, dtype=np.int64))
        if user is not None:
            row = self._history.table_of(has_strengths=has_strengths).row(user)
            stored_items, stored_values, timestamps, positions = row
            stored = UserRow(stored_items, stored_values, times_of(timestamps, positions), positions)
            if has_strengths and self._history.strengths.has_events:
                values, seconds, _ = self._history.strengths.with_ratings(user, items, values, seconds)
        stays, counts = ~np.isin(stored.items, items), ~np.isnan(values)
        new = UserRow(items, values, seconds, stored.order.max(initial=0) + 1 + np.arange(len(items))).where(counts)
        pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(stored.where(stays), new, strict=True)
        both = UserRow._make(np.append(before, after) for before, after in pairs)
        return both.where(np.argsort(both.items))


def _weights(live_model: LiveModel, row: UserRow, order_half_life: float | None) -> NDArray[np.float32] | None:
    """The weight of each rating of `row`, (B,); None if all weigh 1."""
    weights = weights_in(live_model.model, row.seconds)
    if order_half_life is None:
        return weights
    n_newer = np.empty(len(row.order))
    n_newer[np.argsort(-row.order)] = np.arange(len(row.order))
    by_order = np.maximum(np.exp2(-n_newer / order_half_life), SMALLEST_WEIGHT).astype(np.float32)
    return by_order if weights is None else weights * by_order
