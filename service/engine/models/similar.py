"""Neighbors of items and users, and users for an item, by a live model, on the host. Belongs to the engine thread.

What reads the scores of all rows is a generator, which does so in slices of `SLICE_S`: each as it finds the parameters.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator

import numpy as np
from numpy.typing import NDArray

from gpu.ranking import topn, weighted
from service.engine.background import SLICE_S
from service.engine.models.live_model import LiveModel

ROWS_AT_ONCE = 8192  # whose scores are read together, in 0.4 ms with 64 factors, or 4 ms with neighbor lists

Ranked = Generator[None, None, tuple[NDArray[np.int32], NDArray[np.float32]]]


def in_slices(n_rows: int, read: Callable[[slice], None]) -> Generator[None, None, None]:
    """Call `read` for all of `n_rows` rows, some at a time, in slices of `SLICE_S`."""
    began = time.monotonic()
    for first in range(0, n_rows, ROWS_AT_ONCE):
        if time.monotonic() - began >= SLICE_S:
            yield
            began = time.monotonic()
        read(slice(first, min(first + ROWS_AT_ONCE, n_rows)))


def similar_items(live_model: LiveModel, item: int, n: int, shown: NDArray[np.bool_]) -> Ranked:
    """Neighbors of an item among those of `shown`, bool (I,), best first.

    Models with item weights use these (`gpu.ranking.weighted.likenesses`), models with neighbor lists (at most K
    neighbors) the agreement of signatures, all others the cosine of factors.
    """
    model = live_model.model
    if model.params.has_item_weights or not model.neighbors.shape[1]:
        return (yield from similar_to_set(live_model, np.array([item], dtype=np.int32), n, shown))
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
    model, known = live_model.model, shown & ~live_model.unknown
    if model.params.has_item_weights:
        return topn.others(weighted.likenesses(model, items), items, n, known)
    if not model.neighbors.shape[1]:
        towards, cosines = topn.direction(model.item_factors, items), np.empty(len(known), dtype=np.float32)

        def read(part: slice) -> None:
            topn.cosines(live_model.model.item_factors[part], towards, cosines[part])

        yield from in_slices(len(cosines), read)
        return topn.others(cosines, items, n, known)
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
    have_ratings = live_model.table.rows.lengths > 0
    have_ratings[left_out] = False
    cosines, has_weights = np.empty(len(have_ratings), dtype=np.float32), live_model.model.params.has_item_weights
    towards = None if has_weights else topn.direction(live_model.model.user_factors, np.array([user]))

    def read(part: slice) -> None:
        if towards is None:
            weighted.user_cosines(live_model.model, live_model.table.rows, user, part, cosines[part])
        else:
            topn.cosines(live_model.model.user_factors[part], towards, cosines[part])

    yield from in_slices(len(cosines), read)
    return topn.others(cosines, user, n, have_ratings)


def users_for(
    live_model: LiveModel, item: int, n: int, may_see: NDArray[np.bool_]
) -> Generator[None, None, tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Those of `may_see`, bool (U,), with the highest scores of an item, best first; ties to the lower row.

    Scores are those of `gpu.ranking.topn.scores`, by parameters that the host has, wherever the model learns. Users
    from whose lists events keep the item are left out.
    """
    best, best_scores = np.zeros(0, dtype=np.int64), np.zeros(0)

    def read(part: slice) -> None:
        nonlocal best, best_scores
        users = part.start + np.flatnonzero(may_see[part])
        scores, width = topn.scores_of_item(live_model.model, item, users, live_model.rows_of), 0
        if len(best) == n:
            chosen = scores > best_scores[-1]
            users, scores = users[chosen], scores[chosen]
        kept = list[int]()
        while len(kept) < n and width < len(users):
            width = min(2 * (width or n), len(users))  # some of them may be left out
            places = np.flatnonzero(scores >= np.partition(scores, -width)[-width])
            places = places[np.argsort(-scores[places], kind="stable")]
            may_have = (
                place
                for place in places.tolist()
                if item not in live_model.kept_out(int(users[place]), include_seen=False)
            )
            kept = list(itertools.islice(may_have, n))
        best, best_scores = np.append(best, users[kept]), np.append(best_scores, scores[kept])
        order = np.argsort(-best_scores, kind="stable")[:n]
        best, best_scores = best[order], best_scores[order]

    yield from in_slices(len(may_see), read)
    return best, best_scores
