"""The content map: predicts the factors of items that nobody has rated from what is known of them; and those of users.

A trained item or user i has features x_i (P,) and parameters y_i = [v; b] (T,). W and c minimize the ridge regression

    Σ w_i |y_i − W x_i − c|² + λ |W|²,    w_i = min(n_i, MAX_WEIGHT), scaled to a mean of 1,

where n_i counts ratings: the factors of items with few ratings are mostly noise. So λ counts items: a feature that k
items have is shrunk by about k / (k + λ). λ is the one of `RIDGES` that predicts every fifth item best from the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from gpu.base.backend import HOST, Backend
from gpu.data.model import Model
from gpu.data.ratings import Ratings, Rows
from gpu.training.list_quality import Lists, interval

RIDGES = 0.3, 1.0, 3.0, 10.0, 30.0, 100.0
# Ratings. With 100 the mean item is one that few people rate, and estimates of the others are too low: on MovieLens-1M
# test RMSE of unrated items .0440 higher for als, and HR@10 .014 higher for als-implicit.
MAX_WEIGHT = 1000
FEWEST = 20  # items; from fewer nothing is learned
FOLDS = 5  # one of as many items is held out
MOST_ERROR = 0.99  # of the error of the mean item: a map of features that say nothing is no better, but for luck
NUMBERS_AT_ONCE = 2**24  # numbers; float64 copies of features, 128 MB
K, MOST_JUDGED = 10, 2000  # items of the lists by which a map of users is judged, and users

Judge = Callable[[NDArray[np.int64], NDArray[np.float32]], bool]  # rows (B,) that a map did not see, and their priors


class _Moments(NamedTuple):
    """Weighted moments of some items: Σ w x xᵀ and Σ w x yᵀ around the means, the means of x and y."""

    gram: NDArray[np.float64]
    cross: NDArray[np.float64]
    features: NDArray[np.float64]
    targets: NDArray[np.float64]

    def solved(self, ridge: float) -> NDArray[np.float64]:
        """[W; c] (P + 1, T)."""
        matrix = self.gram + ridge * np.eye(len(self.gram))
        weights = linalg.solve(matrix, self.cross, assume_a="pos")
        return np.vstack([weights, self.targets - self.features @ weights])


def fit(
    features: NDArray[np.float32],
    targets: NDArray[np.float32],
    counts: NDArray[np.integer],
    judge: Judge = lambda _rows, _priors: True,
) -> NDArray[np.float32] | None:
    """[W; c], float32 (P + 1, T): the prior of an item is x W + c. None if the mean item predicts about as well.

    Args:
        features: (n, P), a row for each trained item; rows should be about equally long.
        targets: (n, T), factors and biases.
        counts: (n,), ratings of each item, at least 1.
        judge: must also find the priors of the held-out fifth good enough.
    """
    if len(features) < FEWEST:
        return None
    weights = np.minimum(counts, MAX_WEIGHT).astype(np.float64)
    weights /= weights.mean()
    is_held_out = np.arange(len(features)) % FOLDS == 0
    moments = _moments(features[~is_held_out], targets[~is_held_out], weights[~is_held_out])
    held_out = features[is_held_out], targets[is_held_out], weights[is_held_out]
    errors = [_error(moments.solved(ridge), *held_out) for ridge in RIDGES]
    mean = np.vstack([np.zeros_like(moments.cross), moments.targets])
    if not min(errors) < MOST_ERROR * _error(mean, *held_out):  # NaN too
        return None
    ridge = RIDGES[int(np.argmin(errors))]
    tested = moments.solved(ridge).astype(np.float32)
    if not judge(np.flatnonzero(is_held_out), held_out[0] @ tested[:-1] + tested[-1]):
        return None
    return _moments(features, targets, weights).solved(ridge).astype(np.float32)


def lists_gain(
    model: Model, users: NDArray[np.int64], priors: NDArray[np.float32], ratings: Ratings, backend: Backend = HOST
) -> tuple[float, float]:
    """Bounds of the mean gain in NDCG@`K` of lists by `priors` over the list of the items with the most ratings.

    What a user likes should be in the list: in models of ratings, what has at least the mean rating. The factors of
    items come from it too, but one user among many hardly moves these. At most `MOST_JUDGED` users are judged.

    Args:
        users: rows (B,) of `model`.
        priors: [p; b] of them, (B, F + 1).
        ratings: of the training.
    """
    from gpu.ranking import item_index, topn  # noqa: PLC0415 - `import gpu` loads no kernel
    from gpu.ranking.requests import Users  # noqa: PLC0415 - as above

    users, priors = users[:MOST_JUDGED], priors[:MOST_JUDGED]
    place = np.zeros(model.n_users, dtype=np.int64)
    place[users] = np.arange(len(users))
    popular = np.argsort(-model.item_counts.astype(np.int64), kind="stable")[:K].astype(np.int32)
    index = item_index.ItemIndex(model, backend)

    def by_priors(of: NDArray[np.int64], k: int) -> NDArray[np.int32]:
        own, nothing = priors[place[of]], np.zeros(len(of), dtype=np.int64)
        asking = Users(own[:, :-1].copy(), own[:, -1].copy(), np.zeros(len(of), dtype=np.float32))
        rows = Rows(nothing, nothing, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))
        return topn.recommend(index, asking, rows, k)[0]

    test, likes_from = ratings.where(np.isin(ratings.coo()[0], users)), None if model.is_implicit else model.mean
    values = [
        Lists.of(model, ratings.by_user, test, likes_from, K, backend, index, listing).of_users("ndcg", K)
        for listing in (by_priors, lambda of, k: np.tile(popular[:k], (len(of), 1)))
    ]
    return interval(values[0] - values[1]) if len(values[0]) else (0.0, 0.0)


def _moments(features: NDArray[np.float32], targets: NDArray[np.float32], weights: NDArray[np.float64]) -> _Moments:
    total, size, width = weights.sum(), features.shape[1], targets.shape[1]
    x_mean, y_mean = weights @ features / total, weights @ targets / total
    gram, cross = np.zeros((size, size)), np.zeros((size, width))
    n_rows = max(NUMBERS_AT_ONCE // size, 1)
    for first in range(0, len(features), n_rows):
        part = slice(first, first + n_rows)
        x = features[part] - x_mean
        weighted = x * weights[part, None]
        gram += x.T @ weighted
        cross += weighted.T @ (targets[part] - y_mean)
    return _Moments(gram, cross, x_mean, y_mean)


def _error(
    solution: NDArray[np.float64],
    features: NDArray[np.float32],
    targets: NDArray[np.float32],
    weights: NDArray[np.float64],
) -> float:
    """Σ w |y − x W − c|²."""
    errors = targets - features @ solution[:-1] - solution[-1]
    return float(weights @ (errors**2).sum(axis=1))
