"""`UserSplit`: the users of each rank, for trainings whose ranks learn all items from their own users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.ratings import Ratings
from gpu.data.views import part_of, weighted_bounds
from gpu.ranks.exchange import Exchange


class UserSplit(NamedTuple):
    """The users of this rank.

    Attributes:
        bounds: int64 (P + 1,), first user of each rank.
        own: the users of this rank.
        held: the same. If there are none, the user with most ratings: then the rank learns nothing, but trainings need
            a user.
        is_idle: whether this rank has no users.
    """

    bounds: NDArray[np.int64]
    own: slice
    held: slice
    is_idle: bool

    @classmethod
    def of(cls, ratings: Ratings, exchange: Exchange) -> UserSplit:
        """Users with about as many ratings as the weight of their rank says."""
        bounds = bounds_of(ratings.by_user.lengths, exchange.weights)
        own = slice(*bounds[exchange.rank : exchange.rank + 2].tolist())
        most = int(np.argmax(ratings.by_user.lengths))
        is_idle = own.start == own.stop
        return cls(bounds, own, slice(most, most + 1) if is_idle else own, is_idle)

    def part(self, ratings: Ratings) -> Ratings:
        """The ratings of the users in `held` as `by_user`, counted from the first; `by_item` still has all."""
        if len(self.bounds) == 2:  # one rank: readers of these very ratings share a copy on the device
            return ratings
        by_user, _ = part_of(ratings.by_user, self.held)
        return Ratings(by_user, ratings.by_item, ratings.user_keys[self.held], ratings.item_keys)


def bounds_of(lengths: NDArray[np.int64], weights: Sequence[float]) -> NDArray[np.int64]:
    """First user of each rank, int64 (P + 1,); ratings are about in proportion to `weights` (P,).

    Each rank has a user with ratings. If there are fewer of those than ranks, some ranks have no users.

    Args:
        lengths: int64 (U,), ratings of each user, at least one of them above 0.
    """
    rated, ranks = np.flatnonzero(lengths), np.arange(len(weights) + 1)
    n_spare = len(rated) - len(weights)
    if n_spare < 0:
        cuts = np.minimum(ranks, len(rated))
    else:  # each cut is above the one before, and leaves a user to each rank after it
        cuts = np.maximum.accumulate(weighted_bounds(lengths[rated], weights) - ranks).clip(0, n_spare) + ranks
    bounds = np.append(rated, len(lengths))[cuts]
    bounds[cuts == 0] = 0
    return bounds
