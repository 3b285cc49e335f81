"""What-if: the parameters of a user with ratings and events that are not stored, beside the stored ones or without any.

The result is that of a refit of a user who really has these: a fold-in of the same row, by the key of the user.
Learning would also change items (refits of new items, and of trained items that have gained many ratings). This is left
out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.evidence import packed
from gpu.data.rating_table import times_of
from gpu.data.ratings import Rows
from gpu.data.refit_rules import MAX_RATINGS_OF_USERS
from gpu.online.reading import ANONYMOUS_KEY, Reading
from gpu.ranking.requests import Users
from gpu.ranking.weighted import weights_by_time
from service.base.errors import InvalidRequest
from service.engine.models.live_model import LiveModel
from service.engine.queries import Recommend
from service.engine.state.history import History
from service.engine.state.id_table import key_of
from service.engine.state.strengths import MAX_SUM
from service.settings.event_types import RATING

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
    """Ratings over the stored ones and events beside them, of E distinct items.

    Attributes:
        items: int32 (E,), in order of their last rating or event.
        are_rated: bool (E,), whether `ratings` replaces the stored rating.
        ratings: float32 (E,); NaN removes the stored one.
        seconds: float64 (E,), the times of the ratings.
        sums: float32 (E,), of the events; NaN for none.
        latest: float64 (E,), the newest time of those that say more than that the item was seen; -inf without any.
        unknown: further items.
    """

    items: NDArray[np.int32]
    are_rated: NDArray[np.bool_]
    ratings: NDArray[np.float32]
    seconds: NDArray[np.float64]
    sums: NDArray[np.float32]
    latest: NDArray[np.float64]
    unknown: list[str]


class Imagined(NamedTuple):
    """A user with extra ratings and events.

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
    """Answers for users as if they had rated and done what a query says."""

    def __init__(self, history: History) -> None:
        self._history = history

    def extra_of(self, query: Recommend) -> Extra:
        """The ratings and events of `query`; of several ratings of an item the last counts, and events add up.

        No time is later than the last entry's. Events of a type without a weight count for nothing.
        """
        history, now_s = self._history, self._history.position.ms / 1000
        ratings, events = query.ratings or (), query.events or ()
        timestamps: Sequence[float | None] = query.timestamps or [None] * len(ratings)
        weights = history.weights_of([type_ for _, type_, _, _ in events])
        # What was said of each item: its time, and a rating or an amount of an event with its weight.
        said: list[tuple[float, str, float | None, float, float]] = [
            (now_s if time is None else min(time, now_s), item, value, math.nan, 0.0)
            for (item, value), time in zip(ratings, timestamps, strict=True)
        ] + [
            (now_s if time is None else min(time, now_s), item, None, value * weight, weight)
            for (item, _, value, time), weight in zip(events, weights.tolist(), strict=True)
            if not math.isnan(weight)
        ]
        last: dict[str, tuple[bool, float, float, float, float]] = {}
        for seconds, item, rating, amount, weight in sorted(said, key=lambda each: each[0]):
            is_rated, value, rated_s, total, latest = last.get(item, (False, math.nan, 0.0, math.nan, -math.inf))
            if weight or math.isnan(amount):  # to be seen again changes nothing
                last.pop(item, None)  # so that the item takes the place of its last rating or event
            if math.isnan(amount):
                is_rated, value, rated_s = True, math.nan if rating is None else rating, seconds
            else:
                total = limited((0.0 if math.isnan(total) else total) + amount)
                latest = max(latest, seconds) if weight else latest
            last[item] = is_rated, value, rated_s, total, latest
        rows = {item: row for item in last if (row := history.items.row(item)) is not None}
        said_last = [last[item] for item in rows]
        are_rated, values, seconds_of_items, sums, newest = zip(*said_last, strict=True) if rows else [()] * 5
        return Extra(
            np.array(list(rows.values()), dtype=np.int32),
            np.array(are_rated, dtype=np.bool_),
            np.array(values, dtype=np.float32),
            np.array(seconds_of_items, dtype=np.float64),
            np.array(sums, dtype=np.float32),
            np.array(newest, dtype=np.float64),
            [item for item in last if item not in rows],
        )

    def left_out(self, user: int | None, extra: Extra) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Items that a list of common items leaves out for a user with `extra`.

        Returns:
            (those that the user would have rated, or done more with than see them; those that were only seen).
        """
        sums = self._sums(user, extra)
        return self._merged(user, extra, has_strengths=True).items, extra.items[sums == 0]

    def disliked(self, user: int | None, extra: Extra) -> NDArray[np.int32]:
        """Items whose events would sum up to less than 0."""
        sums = self._sums(user, extra)
        stored = self._history.strengths.disliked(user) if user is not None else extra.items[:0]
        return np.append(stored[~np.isin(stored, extra.items[~np.isnan(sums)])], extra.items[sums < 0])

    def had(self, user: int | None, query: Recommend, extra: Extra, seen_types: Sequence[str]) -> NDArray[np.int32]:
        """As `History.had`, of a user with the ratings and events of `query`."""
        named = {item for item, type_, _, _ in query.events or () if type_ in seen_types}
        items = np.array([row for row in map(self._history.items.row, named) if row is not None], dtype=np.int32)
        items = items if user is None else np.append(items, self._history.done(user, seen_types))
        rated = self._merged(user, extra, has_strengths=False).items if RATING in seen_types else extra.items[:0]
        return np.append(items, rated)

    def imagined(
        self, live_model: LiveModel, user: int | None, query: Recommend, extra: Extra, seen_types: Sequence[str]
    ) -> Imagined | None:
        """The user of `query`, who has the row `user`, with `extra`; None if the model knows none of the items.

        `seen_types`: those that the list leaves out, instead of all that the user had.

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
        return Imagined(users, rows, read, weights, self._kept_out(live_model, user, query, extra, seen_types))

    def _kept_out(
        self, live_model: LiveModel, user: int | None, query: Recommend, extra: Extra, seen_types: Sequence[str]
    ) -> list[NDArray[np.int32]] | None:
        """Items that events keep out of the list, see `LiveModel.kept_out`."""
        if query.include_seen or seen_types:
            return [np.append(self.disliked(user, extra), self.had(user, query, extra, seen_types))]
        have_more, rotates = ~np.isnan(extra.sums), query.rotate is not None
        if not (have_more.any() or (user is not None and self._history.strengths.has_events)):
            return None
        stored = extra.items[:0]
        if user is not None:
            stored = live_model.kept_out(user, include_seen=False, rotates=rotates)
        sums = self._sums(user, extra)
        # Of items that the query names, what it makes of them counts: one whose rating goes may still have events.
        stays = (sums != 0) & ~np.isnan(sums) if rotates else ~np.isnan(sums)
        named = extra.are_rated & np.isnan(extra.ratings) | have_more
        return [np.append(stored[~np.isin(stored, extra.items[named & ~stays])], extra.items[have_more & stays])]

    def _sums(self, user: int | None, extra: Extra) -> NDArray[np.float32]:
        """The events that a user would have of the items of `extra`, float32 (E,); NaN for none."""
        if user is None:
            return extra.sums
        stored, _ = self._history.strengths.sums(user, extra.items)
        both = np.nan_to_num(stored) + np.nan_to_num(extra.sums)
        are_none = np.isnan(stored) & np.isnan(extra.sums)
        return np.where(are_none, np.float32(np.nan), np.clip(both, -MAX_SUM, MAX_SUM)).astype(np.float32)

    def _merged(self, user: int | None, extra: Extra, *, has_strengths: bool) -> UserRow:
        """What the user would have in the table of strengths, or in that of ratings."""
        named = extra.are_rated | (extra.latest > -np.inf) if has_strengths else extra.are_rated
        items, are_rated = extra.items[named], extra.are_rated[named]
        values, seconds, latest = extra.ratings[named], extra.seconds[named], extra.latest[named]
        stored = UserRow(items[:0], values[:0], seconds[:0], np.zeros(0, dtype=np.int64))
        if user is not None:
            row = self._history.table_of(has_strengths=has_strengths).row(user)
            stored_items, stored_values, timestamps, positions = row
            stored = UserRow(stored_items, stored_values, times_of(timestamps, positions), positions)
        if has_strengths:
            if user is not None:
                ratings, rated_s = self._history.table.looked_up(np.full(len(items), user, dtype=np.int32), items)
                values, seconds = np.where(are_rated, (values, seconds), (ratings, rated_s))
                latest = np.maximum(latest, self._history.strengths.sums(user, items)[1])
            seconds = np.fmax(np.where(np.isnan(values), np.nan, seconds), latest)
            seconds = np.minimum(seconds, self._history.position.ms / 1000)
            values = packed(values.astype(np.float32), self._sums(user, extra)[named])
        stays, counts = ~np.isin(stored.items, items), ~np.isnan(values)
        new = UserRow(items, values, seconds, stored.order.max(initial=0) + 1 + np.arange(len(items))).where(counts)
        pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(stored.where(stays), new, strict=True)
        both = UserRow._make(np.append(before, after) for before, after in pairs)
        return both.where(np.argsort(both.items))


def limited(total: float) -> float:
    """A sum of events within its bounds."""
    return min(max(total, -MAX_SUM), MAX_SUM)


def _weights(live_model: LiveModel, row: UserRow, order_half_life: float | None) -> NDArray[np.float32] | None:
    """The weight of each rating of `row`, (B,); None if all weigh 1."""
    lengths = np.array([len(row.items)])
    weights = weights_by_time(live_model.model, lengths, row.values, row.seconds, row.order)
    if order_half_life is None:
        return weights
    n_newer = np.empty(len(row.order))
    n_newer[np.argsort(-row.order)] = np.arange(len(row.order))
    by_order = np.maximum(np.exp2(-n_newer / order_half_life), SMALLEST_WEIGHT).astype(np.float32)
    return by_order if weights is None else weights * by_order
