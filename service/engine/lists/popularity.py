"""`Popularity`: ranks items by popularity, for users without ratings and while no model is live."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.evidence import amounts
from gpu.ratings import Rows
from service.engine.lists.top_items import TopItems

SHRINKAGE = 10  # ratings of average value that are added to those of every item
UNITS = 1 << 20  # per rating point; sums are integers, so that they do not depend on the order of changes


class Popularity(TopItems):
    """Ranks items by number of ratings; the mean rating, shrunk toward the overall mean, breaks ties.

    The score is the count plus a fraction from 0 to below 1 that grows with the shrunk mean and is ½ at the overall
    mean. Values below 0 are dislikes and do not count. An item without other ratings is never listed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._n_ratings = self._sum = 0

    @property
    def n_ratings(self) -> int:
        """Ratings counted."""
        return self._n_ratings

    def recount(self, rows: Rows, n_items: int) -> None:
        """Count again from all ratings."""
        used = np.repeat(rows.starts - np.cumsum(rows.lengths) + rows.lengths, rows.lengths)
        used += np.arange(len(used))
        self._clear()
        self._n_ratings, self._sum = 0, 0
        none = np.full(len(used), np.nan, dtype=np.float32)
        self.note(rows.items[used], none, rows.values[used], n_items)

    def note(
        self, items: NDArray[np.integer], old: NDArray[np.float32], new: NDArray[np.float32], n_items: int
    ) -> None:
        """Count changes of strengths (`gpu.evidence`); NaN stands for none."""
        self._grow(n_items)
        old, new = amounts(old), amounts(new)
        had, has = old >= 0, new >= 0  # false for NaN
        counts, sums = has.astype(np.int64) - had, _in_units(np.where(has, new, 0)) - _in_units(np.where(had, old, 0))
        np.add.at(self._firsts.values, items, counts)
        np.add.at(self._seconds.values, items, sums)
        self._n_ratings += int(counts.sum())
        self._sum += int(sums.sum())
        self._touch(items)

    def _scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Count plus ½ + arctan(d) / π, where d is the difference of the shrunk mean to the overall mean."""
        counts, sums = self._firsts.values[rows], self._seconds.values[rows]
        beyond = (sums - counts * (self._sum / max(self._n_ratings, 1))) / UNITS
        scores: NDArray[np.float64] = counts + 0.5 + np.arctan(beyond / (counts + SHRINKAGE)) / np.pi
        return scores


def _in_units(values: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.rint(values.astype(np.float64) * UNITS).astype(np.int64)
