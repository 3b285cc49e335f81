"""Models with weights between items, and the items that get them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.data.ratings import Ratings
from gpu.data.signals import Calibration


def weighted_items(liked: Ratings) -> NDArray[np.int64]:
    """The items (T,), ascending, that at least one user with another like likes."""
    several = np.repeat(liked.by_user.lengths > 1, liked.by_user.lengths)
    return np.flatnonzero(np.bincount(liked.by_user.items[several], minlength=liked.n_items))


def weighted_model(
    ratings: Ratings,
    liked: Ratings,
    params: Params,
    calibration: Calibration,
    items: NDArray[np.int64],
    weights: NDArray[np.float32],
) -> Model:
    """The model with `weights` (T, T) of `items` (T,); estimates lie between 0 and 1.

    The factor of a user who has ratings but likes no such item is 1; that of an item is the share of users who like it.

    Args:
        ratings, liked: what the model was trained on, and the part of it that says something for an item.
    """
    arrays = Model.zeros(params, 0.0, (0.0, 1.0), ratings.n_users, ratings.n_items).arrays
    arrays["item_weights"] = weights
    arrays["item_slots"][items] = np.arange(len(items))
    model = Model(params, 0.0, (0.0, 1.0), arrays, calibration)
    model.mark_trained(ratings.by_user.lengths, ratings.by_item.lengths)
    model.item_trained[:] = False
    model.item_trained[items] = True
    likes_some, (users, of_users, _) = np.zeros(ratings.n_users, dtype=np.bool_), liked.coo()
    likes_some[users[np.isin(of_users, items)]] = True
    model.user_factors[:, 0] = (ratings.by_user.lengths > 0) & ~likes_some
    model.item_factors[:, 0] = liked.by_item.lengths / max(int(np.count_nonzero(ratings.by_user.lengths)), 1)
    return model
