"""Models with item weights (`gpu.training.ease`): a user is what was rated, and a score is a sum over these ratings.

The score of item j is Σ_i x_i B_ij over the rated items i, B the weights of the model. x is 1 for a like, below 0 for a
dislike, and for a count how sure it is (`gpu.calibration.preferences`). So a new rating counts in the next
list without any learning, and each rating's share of a score is exact.

Somebody who likes nothing that has weights would get a list of items in no order. Such a user has the factor 1, all
others 0, and the one factor of an item is the share of users who like it: popular items come first, and what is like
the disliked goes down.

An item newer than the snapshot has no weights: it can be listed, with the score 0, and says nothing of its raters until
the next training.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.backend import HOST
from gpu.calibration import DISLIKED, preferences
from gpu.model import NO_SLOT, Model
from gpu.ratings import Rows, are_likes


def heard(model: Model, rows: Rows) -> Rows:
    """`rows` with x in place of the ratings, packed, where `model` has item weights; else as they are."""
    if not model.params.has_item_weights:
        return rows
    starts = np.cumsum(rows.lengths) - rows.lengths
    places = np.repeat(rows.starts - starts, rows.lengths) + np.arange(rows.lengths.sum())
    return Rows(starts, rows.lengths, rows.items[places], preferences(rows.values[places], model.calibration))


def partial_correlations(model: Model, item: int) -> NDArray[np.float32]:
    """How alike `item` and each item are beside all others, −1 to 1, float32 (I,); −inf where that is not known.

    −P_ij / √(P_ii P_jj), P the inverse of the regularized XᵀX, which is the geometric mean of B_ij and B_ji: so it is
    the same in both directions, and a popular item is not everybody's neighbor.
    """
    found, slot = np.full(model.n_items, -np.inf, dtype=np.float32), model.item_slots[item]
    if slot == NO_SLOT:
        return found
    forth, back = model.item_weights[slot], model.item_weights[:, slot]
    means = np.sign(forth) * np.sqrt(np.maximum(forth * back, 0))
    has_slot = model.item_slots != NO_SLOT
    found[has_slot] = means[model.item_slots[has_slot]]
    return found


def user_cosines(model: Model, rows: Rows, user: int) -> NDArray[np.float32]:
    """The cosine of what `user` and each user likes and dislikes, float32 (U,); −inf for those without ratings."""
    start, line = rows.starts[user], np.zeros(model.n_items, dtype=np.float32)
    own = slice(start, start + rows.lengths[user])
    line[rows.items[own]] = np.where(are_likes(rows.values[own], model.middle), 1, DISLIKED)
    length, found = np.float32(np.sqrt(np.sum(line**2))), np.empty(len(rows.starts), dtype=np.float32)
    HOST.primitives("online.weighted").cosines_of_rows(rows, line, length, np.float32(model.middle), DISLIKED, found)
    return found
