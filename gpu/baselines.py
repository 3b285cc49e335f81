"""Averages of ratings, shrunk so that a row with one rating stays near the mean of all.

* `baselines`: the constants b_ij = μ + b̄_i + b̄_j of [004] eq. 1, each row's mean on its own.
* `shrunk_biases`: both sides fitted together; the best that can be said without factors, and where SGD starts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.ratings import NO_MIDDLE, Ratings, Rows

PRIOR = 5.0  # ratings of average value that each row has beside its own
TURNS = 8  # of both sides; later ones move test errors by less than 1e-5


class Baselines(NamedTuple):
    """A mean and a deviation from it for each row.

    Attributes:
        mean: μ, mean of all ratings.
        user, item: float32 (U,) and (I,); 0 for rows without ratings.
        middle: see `gpu.model.Model`.
    """

    mean: float
    user: NDArray[np.float32]
    item: NDArray[np.float32]
    middle: float = NO_MIDDLE


def baselines(ratings: Ratings) -> Baselines:
    """The fixed baselines inside neighbor residuals and inside Ψ of simLSH; never trained.

    Each is Σ (r − μ) / (n + `PRIOR`) over a row; μ = 0 where there is no rating.
    """
    mean = mean_of(ratings)
    return Baselines(mean, deviations(ratings.by_user, mean), deviations(ratings.by_item, mean))


def shrunk_biases(ratings: Ratings) -> Baselines:
    """R ≈ μ + b_i + b̂_j by alternating shrunk means: what each side leaves over is what the other one is fitted to.

    In `TURNS` turns, b̂_j = Σ (r − μ − b_i) / (n_j + `PRIOR`), then b_i likewise.
    """
    mean, by_user, by_item = mean_of(ratings), ratings.by_user, ratings.by_item
    user, item = np.zeros(ratings.n_users, np.float32), np.zeros(ratings.n_items, np.float32)
    for _ in range(TURNS):
        item = deviations(by_item._replace(values=by_item.values - user[by_item.items]), mean)
        user = deviations(by_user._replace(values=by_user.values - item[by_user.items]), mean)
    return Baselines(mean, user, item)


def mean_of(ratings: Ratings) -> float:
    """μ; 0 where there is no rating."""
    return float(ratings.by_user.values.mean(dtype=np.float64)) if len(ratings) else 0.0


def deviations(rows: Rows, mean: float) -> NDArray[np.float32]:
    """Σ (r − `mean`) / (n + `PRIOR`) of each row, float32 (rows,)."""
    owner = np.repeat(np.arange(len(rows.starts)), rows.lengths)
    sums = np.bincount(owner, weights=rows.values - np.float64(mean), minlength=len(rows.starts))
    shrunk: NDArray[np.float32] = (sums / (rows.lengths + PRIOR)).astype(np.float32)
    return shrunk


def residual_deviation(ratings: Ratings, biases: Baselines) -> float:
    """Root mean square of what `biases` leave unexplained."""
    users, items, values = ratings.coo()
    left = values - biases.mean - biases.user[users].astype(np.float64) - biases.item[items]
    return float(np.sqrt(np.mean(left**2)))
