"""`Histories`: the items of users in order of time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.ratings import Ratings


class Histories(NamedTuple):
    """The items of U users, each a slice of one flat array, the oldest first.

    User u has `items[starts[u] : starts[u] + lengths[u]]`, distinct slots from 0 to T − 1.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    items: NDArray[np.int32]

    @classmethod
    def of(cls, ratings: Ratings, slots: NDArray[np.int32]) -> Histories:
        """The items of `ratings` that have a slot, in their order; `slots` (I,), negative for none."""
        assert ratings.order is not None  # noqa: S101 - `in_order` has set it; this narrows the type
        users, items, _ = ratings.coo()
        oldest_first = np.lexsort((ratings.order, users))
        oldest_first = oldest_first[slots[items[oldest_first]] >= 0]
        lengths = np.bincount(users[oldest_first], minlength=ratings.n_users)
        return cls(np.cumsum(lengths) - lengths, lengths, slots[items[oldest_first]])

    def without_last(self) -> Histories:
        """All but the newest item of each user."""
        return self._replace(lengths=np.maximum(self.lengths - 1, 0))

    def packed(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(items of all users without gaps, how many newer ones each has), int32 (N,) each."""
        ends = np.cumsum(self.lengths)
        firsts = np.repeat(self.starts - (ends - self.lengths), self.lengths)
        at = np.arange(len(firsts))
        return self.items[at + firsts], (np.repeat(ends, self.lengths) - 1 - at).astype(np.int32)

    def inputs(self, users: NDArray[np.int64], curve: NDArray[np.float64], n_items: int) -> NDArray[np.float32]:
        """X of `users` (B,) now, float32 (B, T): `curve` (K + 1,) at the place of each item, the newest at 1."""
        x = np.zeros((len(users), n_items), dtype=np.float32)
        for k in range(1, min(len(curve) - 1, int(self.lengths[users].max(initial=0))) + 1):
            reach = np.flatnonzero(self.lengths[users] >= k)
            of_user = users[reach]
            x[reach, self.items[self.starts[of_user] + self.lengths[of_user] - k]] = curve[k]
        return x
