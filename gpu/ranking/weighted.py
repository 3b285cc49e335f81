"""Models with item weights (`gpu.ease.trainer`) have no user vectors: a score is a sum over the user's ratings.

The score of item j is Σ_i x_i B_ij over the rated items i, where B holds the weights of the model. x is 1 for a like,
below 0 for a dislike, and for a count its confidence (`gpu.data.calibration.preferences`). With a half-life it is
multiplied by the weight of the rating (`gpu.data.decay`). So a new rating counts
in the next list without any learning, and the share of each rating in a score is exact.

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

from gpu.data.model import NO_SLOT, Model
from gpu.data.ratings import Ratings, Rows, are_likes
from gpu.data.signals import DISLIKED, Calibration, preferences
from gpu.ranking import host_weighted


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
    starts, places = _packed(rows)
    return Rows(starts, rows.lengths, rows.items[places], preferences(rows.values[places], model.calibration))


def heard_by_age(
    model: Model, rows: Rows, weights_of: Callable[[NDArray[np.int64]], NDArray[np.float32] | None]
) -> Rows:
    """`HeardRows`, packed, for a `model` with item weights and a half-life; else `rows` unchanged.

    Args:
        weights_of: weights of the entries (B,) of `rows.items`.
    """
    if not model.params.has_item_weights or model.params.half_life_days is None:
        return rows
    starts, places = _packed(rows)
    x, weights = preferences(rows.values[places], model.calibration), weights_of(places)
    return HeardRows(starts, rows.lengths, rows.items[places], x if weights is None else x * weights)


def rows_by_age(ratings: Ratings, calibration: Calibration) -> Rows:
    """The rows of training ratings of a model with item weights, by user: `HeardRows` if they have weights."""
    rows = ratings.by_user
    if ratings.weights is None:
        return rows
    return HeardRows(*rows[:3], preferences(rows.values, calibration) * ratings.weights)


def _packed(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(starts of the rows, (B,), once they follow each other; positions of their entries in `rows.items`)."""
    starts = np.cumsum(rows.lengths) - rows.lengths
    return starts, np.repeat(rows.starts - starts, rows.lengths) + np.arange(rows.lengths.sum())


def partial_correlations(model: Model, item: int) -> NDArray[np.float32]:
    """Partial correlation of `item` and each item, −1 to 1, float32 (I,); −inf for items without weights.

    It is −P_ij / √(P_ii P_jj), where P is the inverse of the regularized XᵀX: the geometric mean of B_ij and B_ji. So
    it is the same in both directions, and a popular item is not a neighbor of all others.
    """
    correlations, slot = np.full(model.n_items, -np.inf, dtype=np.float32), model.item_slots[item]
    if slot == NO_SLOT:
        return correlations
    forth, back = model.item_weights[slot], model.item_weights[:, slot]
    means = np.sign(forth) * np.sqrt(np.maximum(forth * back, 0))
    has_slot = model.item_slots != NO_SLOT
    correlations[has_slot] = means[model.item_slots[has_slot]]
    return correlations


def user_cosines(model: Model, rows: Rows, user: int) -> NDArray[np.float32]:
    """Cosine of the likes and dislikes of `user` and of each user, float32 (U,); −inf for users without ratings."""
    start, line = rows.starts[user], np.zeros(model.n_items, dtype=np.float32)
    own = slice(start, start + rows.lengths[user])
    line[rows.items[own]] = np.where(are_likes(rows.values[own], model.middle, model.lift), 1, DISLIKED)
    length, cosines = np.float32(np.sqrt(np.sum(line**2))), np.empty(len(rows.starts), dtype=np.float32)
    sides = np.float32(model.middle), np.float32(model.lift), DISLIKED
    host_weighted.cosines_of_rows(rows, line, length, *sides, cosines)
    return cosines
