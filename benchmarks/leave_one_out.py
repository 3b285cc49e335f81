"""The leave-one-out split: one rating of each user is held out and ranked among 99 unrated items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import gpu
from gpu.errors import InvalidInput

N_NEGATIVES = 99
MOST_USERS = 10_000  # users whose items are ranked; enough for three digits


def leave_one_out(ratings: gpu.Ratings, seed: int) -> tuple[gpu.Ratings, NDArray[np.int32], NDArray[np.int64]]:
    """(training part, held-out items (B,), negatives (B, 99)), with B = min(U, `MOST_USERS`).

    One rating of every user is held out, also of the users beyond B. Negatives are random items that the user has not
    rated.

    Raises:
        InvalidInput: a user has left fewer than 99 items unrated.
    """
    generator = np.random.default_rng(seed)
    rows = ratings.by_user
    chosen = rows.starts + generator.integers(0, rows.lengths)
    keep = np.ones(len(ratings), dtype=np.bool_)
    keep[chosen] = False
    most = int(rows.lengths.max(initial=0))
    if ratings.n_items - most < N_NEGATIVES:
        raise InvalidInput(
            f"Invalid ratings: expected {N_NEGATIVES} items that a user has not rated, to rank one against, got a user"
            f" with {most:,} of {ratings.n_items:,} items rated"
        )
    negatives = np.empty((min(ratings.n_users, MOST_USERS), N_NEGATIVES), dtype=np.int64)
    for user in range(len(negatives)):
        rated = rows.items[rows.starts[user] : rows.starts[user] + rows.lengths[user]]
        unrated = np.setdiff1d(np.arange(ratings.n_items), rated, assume_unique=True)
        negatives[user] = generator.choice(unrated, N_NEGATIVES, replace=False)
    return ratings.where(keep), rows.items[chosen[: len(negatives)]], negatives
