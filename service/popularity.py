"""`Popularity`: the list for those of whom nothing is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.ratings import Rows

SHRINKAGE = 10  # ratings of average value that every item is given beside its own
UNITS = 1 << 20  # ratings are summed in these fractions: integer sums do not depend on the order of changes


class Popularity:
    """Items by how many users have rated them; a mean shrunk towards the overall mean breaks ties.

    The score is one number: the count plus the place, from 0 to below 1, of the shrunk mean between the lowest and the
    highest one. An item without ratings is never listed.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)
        self._sums = np.zeros(0, dtype=np.int64)
        self._order: NDArray[np.int64] | None = None
        self._scores = np.zeros(0)

    def recount(self, rows: Rows, n_items: int) -> None:
        """Start anew from all ratings."""
        used = np.repeat(rows.starts - np.cumsum(rows.lengths) + rows.lengths, rows.lengths)
        used += np.arange(len(used))
        items = rows.items[used]
        self._counts = np.bincount(items, minlength=n_items).astype(np.int64)
        self._sums = np.zeros(n_items, dtype=np.int64)
        np.add.at(self._sums, items, _in_units(rows.values[used]))
        self._order = None

    def note(
        self, items: NDArray[np.integer], old: NDArray[np.float32], new: NDArray[np.float32], n_items: int
    ) -> None:
        """Take in changes of ratings; NaN stands for none."""
        self._counts, self._sums = _longer(self._counts, n_items), _longer(self._sums, n_items)
        had, has = ~np.isnan(old), ~np.isnan(new)
        np.add.at(self._counts, items, has.astype(np.int64) - had)
        np.add.at(self._sums, items, _in_units(np.where(has, new, 0)) - _in_units(np.where(had, old, 0)))
        self._order = None

    def best(self, n: int, offset: int, shown: NDArray[np.bool_]) -> tuple[list[int], list[float]]:
        """Rows and scores of the `n` most popular items behind the first `offset`, of those where `shown` (N,)."""
        order = self._ranked()
        rows = order[shown[order]][offset : offset + n]
        return rows.tolist(), self._scores[rows].tolist()

    def _ranked(self) -> NDArray[np.int64]:
        """Every rated item, best first, ties by row; kept until the next change."""
        if self._order is None:
            self._scores = self._counts + self._tie_breaks()
            rated = np.flatnonzero(self._counts)
            self._order = rated[np.argsort(-self._scores[rated], kind="stable")]
        return self._order

    def _tie_breaks(self) -> NDArray[np.float64]:
        overall = self._sums.sum() / max(self._counts.sum(), 1)
        means = (self._sums + SHRINKAGE * overall) / (self._counts + SHRINKAGE)
        low, high = means.min(initial=overall), means.max(initial=overall)
        places: NDArray[np.float64] = (means - low) / ((high - low) * (1 + 1e-6) or 1.0)
        return places


def _in_units(values: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.rint(values.astype(np.float64) * UNITS).astype(np.int64)


def _longer(array: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    return np.pad(array, (0, n - len(array))) if n > len(array) else array
