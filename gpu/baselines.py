"""`Baselines`: the constants b_ij = μ + b̄_i + b̄_j of [004] eq. 1, computed once before training."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.ratings import Ratings, Rows


class Baselines(NamedTuple):
    """Fixed baselines inside the neighbour residuals and inside Ψ of simLSH; never trained.

    Attributes:
        mean: μ, mean of all ratings.
        user: float32 (U,), mean of the user's ratings minus μ; 0 for users without ratings.
        item: float32 (I,), mean of the item's ratings minus μ; 0 for items without ratings.
    """

    mean: float
    user: NDArray[np.float32]
    item: NDArray[np.float32]


def baselines(ratings: Ratings) -> Baselines:
    """Baselines of `ratings` (μ = 0 where there is none)."""
    values = ratings.by_user.values
    mean = float(values.mean(dtype=np.float64)) if len(values) else 0.0
    return Baselines(mean, deviations(ratings.by_user, mean), deviations(ratings.by_item, mean))


def deviations(rows: Rows, mean: float) -> NDArray[np.float32]:
    """float32 (rows,): the mean of each row minus `mean`; 0 for rows without ratings."""
    owner = np.repeat(np.arange(len(rows.starts)), rows.lengths)
    sums = np.bincount(owner, weights=rows.values, minlength=len(rows.starts))
    means = sums / np.maximum(rows.lengths, 1)
    found: NDArray[np.float32] = np.where(rows.lengths > 0, means - mean, 0.0).astype(np.float32)
    return found
