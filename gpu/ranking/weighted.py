"""Models with item weights (`gpu.ease.trainer`) have no user vectors: a score is a sum over the user's ratings.

The score of item j is Σ_i x_i B_ij over the rated items i, where B holds the weights of the model. x is 1 for a like,
below 0 for a dislike, and for a count its confidence (`gpu.data.calibration.preferences`). With a half-life it is
multiplied by the weight of the rating (`gpu.data.decay`). So a new rating counts
in the next list without any learning, and the share of each rating in a score is exact.

Where order counts (`gpu.next.trainer`), x is 1 for every item that the user has met
(`gpu.data.signals.are_met`), times its weight by the number of newer ones (`gpu.data.recency`).

Models with lists of items (`gpu.neighbors.trainer`) have the weights B_ij of the items j that item i lists; all others
are 0. Every like counts as 1. Their lists follow the ratings, and popularity is below every sum for everybody. What
follows is of the other models.

A user who likes no item with weights would get a list in no order. So such a user has the factor 1 and all others 0.
The one factor of an item is the share of users who like it: popular items come first, and items like the disliked ones
go down.

An item newer than the snapshot has no weights: it can be listed, with the score 0, and its ratings do not affect the
lists of its raters until the next training.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import InvalidInput
from gpu.data import recency
from gpu.data.decay import Times, weights_in
from gpu.data.model import NO_SLOT, Model
from gpu.data.ratings import Ratings, Rows, are_likes
from gpu.data.signals import DISLIKED, Calibration, are_met, preferences

Moments = tuple[NDArray[np.float64], NDArray[np.int64]]  # Unix seconds of ratings (B,), and places in the stream


class HeardRows(Rows):
    """Rows that have x, with the weights of age, in place of the ratings."""

    __slots__ = ()


def heard(model: Model, rows: Rows) -> Rows:
    """`rows` with x in place of the ratings, packed, for a `model` with item weights; else `rows` unchanged.

    `HeardRows` have x already.
    """
    if isinstance(rows, HeardRows):
        return Rows(*rows)
    if not model.params.has_item_weights:
        return rows
    if model.params.is_ordered:
        raise InvalidInput(
            f"Invalid rows for {model.params.algorithm}: expected `heard_in_time`, got rows without order"
        )
    starts, places = _packed(rows)
    return Rows(starts, rows.lengths, rows.items[places], x_of(model, rows.values[places]))


def x_of(model: Model, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The x of ratings (B,) in a `model` with item weights, float32 (B,), before any weights by time."""
    if model.params.is_ordered:
        return are_met(values, model.calibration.values).astype(np.float32)
    x = preferences(values, model.calibration)
    return np.where(x < 0, DISLIKED, np.sign(x)) if model.params.has_item_lists else x


def heard_in_time(model: Model, rows: Rows, moments_of: Callable[[NDArray[np.int64]], Moments]) -> Rows:
    """`HeardRows`, packed, for a `model` with item weights in which time counts; else `rows` unchanged.

    Args:
        moments_of: of the entries (B,) of `rows.items`.
    """
    params = model.params
    if not params.has_item_weights or (params.half_life_days is None and not params.is_ordered):
        return rows
    starts, places = _packed(rows)
    rows = Rows(starts, rows.lengths, rows.items[places], rows.values[places])
    return heard_with(model, rows, weights_by_time(model, rows.lengths, rows.values, *moments_of(places)))


def rows_in_time(model: Model, rows: Rows, times: Times | None) -> Rows:
    """`heard_in_time` of packed `rows` of all users, whose entries have these `times`; `rows` without any."""
    if times is None:
        return rows
    return heard_in_time(model, rows, lambda entries: (times.seconds[entries], times.stream[entries]))


def heard_with(model: Model, rows: Rows, weights: NDArray[np.float32] | None) -> Rows:
    """`HeardRows` of packed `rows` for a `model` with item weights; `rows` unchanged for others, or without `weights`.

    Args:
        weights: of the entries (B,) of `rows`, see `weights_by_time`.
    """
    if weights is None or not model.params.has_item_weights:
        return rows
    return HeardRows(*rows[:3], x_of(model, rows.values) * weights)


def weights_by_time(
    model: Model,
    lengths: NDArray[np.int64],
    values: NDArray[np.float32],
    seconds: NDArray[np.float64],
    stream: NDArray[np.int64],
) -> NDArray[np.float32] | None:
    """What entries of rows that follow each other weigh in `model` by age or by order, float32 (B,); None for 1.

    Args:
        lengths: of the rows.
        values, seconds, stream: (B,), the ratings, their Unix seconds, and their places in the stream.
    """
    if not model.params.is_ordered:
        return weights_in(model, seconds)
    counts = are_met(values, model.calibration.values)
    return recency.weights_of(recency.places_back(lengths, counts, seconds, stream), model.params)


def rows_by_age(ratings: Ratings, calibration: Calibration) -> Rows:
    """The rows of training ratings of EASE, by user: `HeardRows` if they have weights."""
    rows = ratings.by_user
    if ratings.weights is None:
        return rows
    return HeardRows(*rows[:3], preferences(rows.values, calibration) * ratings.weights)


def _packed(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(starts of the rows, (B,), once they follow each other; positions of their entries in `rows.items`)."""
    starts = np.cumsum(rows.lengths) - rows.lengths
    return starts, np.repeat(rows.starts - starts, rows.lengths) + np.arange(rows.lengths.sum())


def likenesses(model: Model, items: NDArray[np.integer]) -> NDArray[np.float32]:
    """How like `items` (B,) each item is, float32 (I,): the mean over those of `items` that have weights.

    With lists it is the weight in the list of each, 0 for an item beyond it, and −inf for items in none. Else it is
    −inf for items without weights. Where order counts it is the weight for the other item: how much more that is met
    next. In EASE it is the partial correlation, −1 to 1.
    """
    means = np.full(model.n_items, -np.inf, dtype=np.float32)
    if model.params.has_item_lists:
        items = items[model.listed[items, 0] >= 0]
        listed, weights = model.listed[items], model.listed_weights[items]
        is_listed = listed >= 0
        means[listed[is_listed]] = 0
        np.add.at(means, listed[is_listed], weights[is_listed] / np.float32(max(len(items), 1)))
        return means
    slots, has_slot = model.item_slots[items], model.item_slots != NO_SLOT
    slots = slots[slots != NO_SLOT]
    means[has_slot] = 0 if len(slots) else -np.inf
    for slot in slots.tolist():
        own = model.item_weights[slot] if model.params.is_ordered else partial_correlations(model, slot)
        means[has_slot] += own[model.item_slots[has_slot]] / np.float32(len(slots))
    return means


def partial_correlations(model: Model, slot: int) -> NDArray[np.float32]:
    """Partial correlation of the item of `slot` and that of each slot, −1 to 1, float32 (T,).

    It is −P_ij / √(P_ii P_jj), where P is the inverse of the regularized XᵀX: the geometric mean of B_ij and B_ji. So
    it is the same in both directions, and a popular item is not a neighbor of all others.
    """
    forth, back = model.item_weights[slot], model.item_weights[:, slot]
    means: NDArray[np.float32] = np.sign(forth) * np.sqrt(np.maximum(forth * back, 0))
    return means


def weights_between(model: Model, sources: NDArray[np.integer], targets: NDArray[np.integer]) -> NDArray[np.float64]:
    """B_ij of each of `sources` (B,) for each of `targets` (T,), float64 (B, T); 0 where there is none."""
    weights = np.zeros((len(sources), len(targets)))
    if model.params.has_item_lists:
        column_of = {target: column for column, target in enumerate(targets.tolist())}  # distinct
        for line, source in zip(weights, sources.tolist(), strict=True):
            places = np.flatnonzero(np.isin(model.listed[source], targets))
            line[[column_of[target] for target in model.listed[source, places].tolist()]] = model.listed_weights[
                source, places
            ]
        return weights
    rows, columns = model.item_slots[sources], model.item_slots[targets]
    has_row, has_column = rows != NO_SLOT, columns != NO_SLOT
    weights[np.ix_(has_row, has_column)] = model.item_weights[np.ix_(rows[has_row], columns[has_column])]
    return weights


def user_cosines(model: Model, rows: Rows, user: int, part: slice, found: NDArray[np.float32]) -> None:
    """Write the cosine of the likes and dislikes of `user` and of each user of a `part` to `found`; −inf for users
    without ratings.
    """
    from gpu.ranking import host_weighted  # noqa: PLC0415 - `import gpu` loads no kernel

    start, line = rows.starts[user], np.zeros(model.n_items, dtype=np.float32)
    own = slice(start, start + rows.lengths[user])
    line[rows.items[own]] = np.where(are_likes(rows.values[own], model.middle, model.lift), 1, DISLIKED)
    length = np.float32(np.sqrt(np.sum(line[rows.items[own]] ** 2)))
    sides = np.float32(model.middle), np.float32(model.lift), DISLIKED
    host_weighted.cosines_of_rows(rows.at(part), line, length, *sides, found)
