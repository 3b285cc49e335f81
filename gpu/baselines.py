"""Averages of ratings, shrunk so that a row with one rating stays near the mean of all.

* `baselines`: the constants b_ij = μ + b̄_i + b̄_j of [004] eq. 1; each row's mean is computed separately.
* `shrunk_biases`: both sides are fitted together. It is the best estimate without factors, and the start of SGD.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.ratings import NO_MIDDLE, Ratings, Rows

PRIOR = 5.0  # ratings of average value added to each row
TURNS = 8  # turns of both sides; later turns change test errors by less than 1e-5


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
    """The fixed baselines of neighbor residuals and of Ψ in simLSH; never trained.

    Each is Σ (r − μ) / (n + `PRIOR`) over a row; μ is 0 without ratings.
    """
    mean = mean_of(ratings)
    return Baselines(mean, deviations(ratings.by_user, mean), deviations(ratings.by_item, mean))


def shrunk_biases(ratings: Ratings) -> Baselines:
    """Biases with R ≈ μ + b_i + b̂_j, by alternating shrunk means: each side is fitted to the residuals of the other.

    It takes `TURNS` turns of b̂_j = Σ (r − μ − b_i) / (n_j + `PRIOR`), then the same for b_i.
    """
    mean, by_user, by_item = mean_of(ratings), ratings.by_user, ratings.by_item
    user, item = np.zeros(ratings.n_users, np.float32), np.zeros(ratings.n_items, np.float32)
    for _ in range(TURNS):
        item = deviations(by_item._replace(values=by_item.values - user[by_item.items]), mean)
        user = deviations(by_user._replace(values=by_user.values - item[by_user.items]), mean)
    return Baselines(mean, user, item)


def mean_of(ratings: Ratings) -> float:
    """μ; 0 without ratings."""
    return float(ratings.by_user.values.mean(dtype=np.float64)) if len(ratings) else 0.0


def deviations(rows: Rows, mean: float) -> NDArray[np.float32]:
    """Σ (r − `mean`) / (n + `PRIOR`) of each row, float32 (rows,)."""
    owner = np.repeat(np.arange(len(rows.starts)), rows.lengths)
    sums = np.bincount(owner, weights=rows.values - np.float64(mean), minlength=len(rows.starts))
    shrunk: NDArray[np.float32] = (sums / (rows.lengths + PRIOR)).astype(np.float32)
    return shrunk


def residual_deviation(ratings: Ratings, biases: Baselines) -> float:
    """Root mean square of the residuals r − μ − b_i − b̂_j of `biases`."""
    users, items, values = ratings.coo()
    left = values - biases.mean - biases.user[users].astype(np.float64) - biases.item[items]
    return float(np.sqrt(np.mean(left**2)))
