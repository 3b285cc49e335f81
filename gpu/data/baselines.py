"""Averages of ratings, shrunk so that a row with one rating stays near the mean of all.

* `baselines`: the constants b_ij = μ + b̄_i + b̄_j of [004] eq. 1; each row's mean is computed separately.
* `user_means_first`: those of [003], where the means of items are taken of what the means of users leave.
* `shrunk_biases`: both sides are fitted together. It is the best estimate without factors, and the start of SGD.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.ratings import NO_MIDDLE, Ratings, Rows

PRIOR = 5.0  # ratings of average value added to each row
TURNS = 8  # turns of both sides; later turns change test errors by less than 1e-5


class Baselines(NamedTuple):
    """A mean and a deviation from it for each row.

    Attributes:
        mean: μ, mean of all ratings.
        user, item: float32 (U,) and (I,); 0 for rows without ratings.
        middle: see `gpu.data.model.Model`.
    """

    mean: float
    user: NDArray[np.float32]
    item: NDArray[np.float32]
    middle: float = NO_MIDDLE


def baselines(ratings: Ratings, prior: float = PRIOR) -> Baselines:
    """The fixed baselines of neighbor residuals and of Ψ in simLSH; never trained.

    Each is Σ (r − μ) / (n + `prior`) over a row; μ is 0 without ratings. With a prior of 0 they are the means of [004].
    """
    mean, (nobody, nothing) = mean_of(ratings), _zeros(ratings)
    user, item = deviations(ratings.by_user, mean, nothing, prior), deviations(ratings.by_item, mean, nobody, prior)
    return Baselines(mean, user, item)


def user_means_first(ratings: Ratings) -> Baselines:
    """The baseline predictor of [003]: b_i = mean of r − μ over a user, b̂_j = mean of r − μ − b_i over an item."""
    mean, (_, nothing) = mean_of(ratings), _zeros(ratings)
    user = deviations(ratings.by_user, mean, nothing, 0.0)
    return Baselines(mean, user, deviations(ratings.by_item, mean, user, 0.0))


def shrunk_biases(ratings: Ratings) -> Baselines:
    """Biases with R ≈ μ + b_i + b̂_j, by alternating shrunk means: each side is fitted to the residuals of the other.

    It takes `TURNS` turns of b̂_j = Σ (r − μ − b_i) / (n_j + `PRIOR`), then the same for b_i.
    """
    mean, (user, item) = mean_of(ratings), _zeros(ratings)
    for _ in range(TURNS):
        item = deviations(ratings.by_item, mean, user)
        user = deviations(ratings.by_user, mean, item)
    return Baselines(mean, user, item)


def mean_of(ratings: Ratings) -> float:
    """μ; 0 without ratings."""
    return float(ratings.by_user.values.mean(dtype=np.float64)) if len(ratings) else 0.0


def deviations(rows: Rows, mean: float, others: NDArray[np.float32], prior: float = PRIOR) -> NDArray[np.float32]:
    """Σ (r − `mean` − b) / (n + `prior`) of each row, float32 (rows,); 0 for one without ratings.

    `others` are b of the other side's rows.
    """
    from gpu.data import host_rows  # noqa: PLC0415 - `import gpu` loads no kernel

    sums = host_rows.residual_sums(rows, mean, others)
    shrunk: NDArray[np.float32] = (sums / np.maximum(rows.lengths + prior, 1)).astype(np.float32)
    return shrunk


def residual_deviation(ratings: Ratings, biases: Baselines) -> float:
    """Root mean square of the residuals r − μ − b_i − b̂_j of `biases`; at least one rating."""
    from gpu.data import host_rows  # noqa: PLC0415 - as above

    squares = host_rows.residual_squares(ratings.by_user, biases.mean, biases.user, biases.item)
    return float(np.sqrt(squares.sum() / len(ratings)))


def _zeros(ratings: Ratings) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A bias of 0 for each user, and for each item."""
    return np.zeros(ratings.n_users, dtype=np.float32), np.zeros(ratings.n_items, dtype=np.float32)
