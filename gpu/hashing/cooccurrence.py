"""Items that the same users like: how often, what that weighs, and how many an item lists, for host and device.

With likes x ∈ {0, 1} of U users and n_u = Σ_i x_ui, a pair of items has the sum

    c_ij = Σ_u x_ui x_uj n_u^−β,

over the users with at most `max_likes` likes. So one user adds at most `max_likes`² terms, and who likes everything
says nothing. The weight of a pair is

    w_ij = c_ij ((d_i + h) (d_j + h))^(α−1).

d is the number of ratings of an item, rounded down to a power of √2: so it changes seldom, and weights with it. h keeps
items of few ratings from the first places, which chance would give them. Each item lists the L others of the largest
weights; equal ones go by the keys of their ids.

n_u^−β is a whole number of steps of 2^−20. So sums are exact: they do not depend on the order of the users, and what is
added and subtracted again leaves no trace.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.model import Model

POPULARITY = 2.0**-40  # an item's factor is its likes times this, below every sum; that of each user is 1
STEP = 2.0**-20  # of n_u^−β
LEVELS = 2  # of d in a doubling
_STARTS = np.ceil(2.0 ** (np.arange(64 * LEVELS) / LEVELS))  # the first count of each level; some levels are empty


class ListRules(NamedTuple):
    """How sums are made, and how many items are listed.

    Attributes:
        user_weights: int64 (`max_likes` + 1,), n^−β in `STEP`s by the number n of likes; 0 for fewer than two.
        exponent, prior: α and h.
        length: L.
        middle, lift: what is a like, see `gpu.data.evidence.merits`.
    """

    user_weights: NDArray[np.int64]
    exponent: float
    prior: float
    length: int
    middle: np.float32
    lift: np.float32

    def scales(self, counts: NDArray[np.integer]) -> NDArray[np.float64]:
        """√`STEP` (d + h)^(α−1) of items with `counts` (B,) ratings, float64 (B,); 0 for none."""
        sizes = 2.0 ** (np.maximum(levels(counts), 0) / LEVELS) + self.prior
        scales: NDArray[np.float64] = np.where(counts > 0, STEP**0.5 * sizes ** (self.exponent - 1), 0.0)
        return scales


def rules_of(model: Model) -> ListRules:
    """The rules of a model with lists of items."""
    params = model.params.sized()
    return ListRules(
        user_weights(params.max_likes, params.activity_exponent or 0.0),
        params.popularity_exponent or 0.0,
        params.popularity_prior or 0.0,
        params.n_neighbors,
        np.float32(model.middle),
        np.float32(model.lift),
    )


def levels(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Which power of √2 d is for `counts` (B,) of ratings, int64 (B,); −1 for none."""
    return np.searchsorted(_STARTS, counts, side="right") - 1


def user_weights(max_likes: int, exponent: float) -> NDArray[np.int64]:
    """`ListRules.user_weights` with β = `exponent`."""
    weights = np.rint(np.maximum(np.arange(max_likes + 1), 1) ** -float(exponent) / STEP).astype(np.int64)
    weights[:2] = 0
    return weights
