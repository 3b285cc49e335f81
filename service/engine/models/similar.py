"""Neighbors of items and users, and users for an item, by a live model, on the host. Belongs to the engine thread."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from gpu.ranking import topn, weighted
from service.engine.models.live_model import LiveModel

Ranked = tuple[NDArray[np.int32], NDArray[np.float32]]


def similar_items(live_model: LiveModel, item: int, n: int, shown: NDArray[np.bool_]) -> Ranked:
    """Neighbors of an item among those of `shown`, bool (I,), best first.

    Models with item weights use these (`gpu.ranking.weighted.likenesses`), models with neighbor lists (at most K
    neighbors) the agreement of signatures, all others the cosine of factors.
    """
    model = live_model.model
    if model.params.has_item_weights:
        return similar_to_set(live_model, np.array([item], dtype=np.int32), n, shown)
    if not model.neighbors.shape[1]:
        return topn.similar(model.item_factors, item, n, shown & ~live_model.unknown)
    neighbors = model.neighbors[item]
    neighbors = neighbors[neighbors >= 0]
    neighbors = neighbors[shown[neighbors]]
    shares = live_model.online.agreement(item, neighbors)
    order = np.lexsort((neighbors, -shares))[:n]
    return neighbors[order], shares[order]


def similar_to_set(live_model: LiveModel, items: NDArray[np.int32], n: int, shown: NDArray[np.bool_]) -> Ranked:
    """The items of `shown`, bool (I,), with the highest mean of the scores of `similar_items` over `items`, distinct.

    The mean is over those of `items` that have scores: those with weights, or with factors other than 0. Models with
    neighbor lists rank all that are listed for any of `items`. A set of one has the neighbors of the item.
    """
    model = live_model.model
    if model.params.has_item_weights:
        return topn.others(weighted.likenesses(model, items), items, n, shown & ~live_model.unknown)
    if not model.neighbors.shape[1]:
        return topn.similar_to_set(model.item_factors, items, n, shown & ~live_model.unknown)
    neighbors = np.unique(model.neighbors[items])
    neighbors = neighbors[(neighbors >= 0) & ~np.isin(neighbors, items)]
    neighbors = neighbors[shown[neighbors]]
    shares = np.zeros(len(neighbors))
    for item in items.tolist():
        shares += live_model.online.agreement(item, neighbors)
    means = (shares / len(items)).astype(np.float32)
    order = np.lexsort((neighbors, -means))[:n]
    return neighbors[order], means[order]


def similar_users(live_model: LiveModel, user: int, n: int, left_out: NDArray[np.int64]) -> Ranked:
    """Users with ratings, by cosine of factors, or of ratings if the model has item weights; the most similar first.

    Args:
        left_out: rows of users who are not listed.
    """
    rows = live_model.table.rows
    have_ratings = rows.lengths > 0
    have_ratings[left_out] = False
    if live_model.model.params.has_item_weights:
        return topn.others(weighted.user_cosines(live_model.model, rows, user), user, n, have_ratings)
    return topn.similar(live_model.model.user_factors, user, n, have_ratings)


def users_for(live_model: LiveModel, item: int, n: int, users: NDArray[np.int64]) -> Ranked:
    """Those of `users` (B,), ascending, with the highest scores of an item, best first; ties to the lower row.

    Scores are those of `gpu.ranking.topn.scores`, by parameters that the host has, wherever the model learns. Users
    from whose lists events keep the item are left out.
    """
    scores, width = topn.scores_of_item(live_model.model, item, users, live_model.rows_of), 0
    while True:
        width = min(2 * (width or n), len(users))  # some of them may be left out
        least = np.partition(scores, -width)[-width] if width else 0.0
        places = np.flatnonzero(scores >= least)
        places = places[np.argsort(-scores[places], kind="stable")]
        kept = (one for one in places.tolist() if item not in live_model.kept_out(int(users[one]), include_seen=False))
        best = list(itertools.islice(kept, n))
        if len(best) == n or width == len(users):
            return users[best].astype(np.int32), scores[best].astype(np.float32)
