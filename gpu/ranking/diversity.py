"""Lists of unlike items, by maximal marginal relevance (MMR, Carbonell and Goldstein, SIGIR 1998)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.data.model import Model
from gpu.ranking.weighted import weights_between

DIGITS = 6


def similarities(model: Model, items: NDArray[np.integer]) -> NDArray[np.float64]:
    """Similarity of each pair of `items` (P,), −1 to 1, float64 (P, P); computed on the host.

    It is the cosine of the factors, for models with item weights ±√(B_ij B_ji), in EASE the partial correlation
    (`gpu.ranking.weighted.partial_correlations`). With lists of items it is the weight of the pair over the largest in
    the list of one of them, of both the higher. Items without factors or weights are like no other one. Rounded to six
    digits, so that the order does not depend on the order in which a library adds.
    """
    if model.params.has_item_lists:
        largest = np.maximum(model.listed_weights[items].max(axis=1), np.finfo(np.float32).tiny).astype(np.float64)
        shares = weights_between(model, items, items) / largest[:, None]
        return np.asarray(np.round(np.maximum(shares, shares.T), DIGITS), dtype=np.float64)
    if model.params.has_item_weights:
        weights = weights_between(model, items, items)
        correlations = np.sign(weights) * np.sqrt(np.maximum(weights * weights.T, 0))
        return np.round(correlations, DIGITS)
    factors = model.item_factors[items].astype(np.float64)
    lengths = np.sqrt(np.sum(factors**2, axis=1, keepdims=True))
    units = np.divide(factors, lengths, out=np.zeros_like(factors), where=lengths > 0)
    cosines: NDArray[np.float64] = np.round(units @ units.T, DIGITS)
    return cosines


def reordered(
    scores: NDArray[np.float64], similarity: NDArray[np.float64], n: int, diversity: float
) -> NDArray[np.int64]:
    """Places of the first `n` of P items, best first, in the order of MMR.

    Each place goes to the item with the largest (1 − d) relevance − d max similarity to the items before it. Relevance
    is the score, moved and scaled so that the best of the P items has 1 and the last one 0. Ties go to the better
    score.

    Args:
        scores: (P,), descending.
        similarity: (P, P), see `similarities`.
        n: places to fill, at most P.
        diversity: d, from 0 (the order stays) to 1.
    """
    if not n:
        return np.zeros(0, dtype=np.int64)
    span = scores[0] - scores[-1]
    relevance = (scores - scores[-1]) / span if span > 0 else np.ones(len(scores))
    order, nearest = np.zeros(n, dtype=np.int64), np.full(len(scores), -np.inf)  # the best item comes first
    is_left = np.ones(len(scores), dtype=np.bool_)
    for place in range(1, n):
        is_left[order[place - 1]] = False
        np.maximum(nearest, similarity[order[place - 1]], out=nearest)
        gains = (1 - diversity) * relevance - diversity * nearest
        order[place] = np.argmax(np.where(is_left, gains, -np.inf))
    return order
