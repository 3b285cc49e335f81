"""`Popularity`: the list for those of whom nothing is known."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpu.growing import Growing
from gpu.ratings import Rows

SHRINKAGE = 10  # ratings of average value that every item is given beside its own
UNITS = 1 << 20  # ratings are summed in these fractions: integer sums do not depend on the order of changes
TOP, MOST_HELD = 1024, 4096  # items that are kept in order: these at least, and these where more were asked for
MOST_CHANGES = 1 << 16  # that are waited for before the order is found anew: up to there, sorting them in takes less
LOWEST = (1, int(np.iinfo(np.int64).min), 0)  # count, sum and row

Top = TypeVar("Top", NDArray[np.int64], None)


class Popularity:
    """Items by how many users have rated them; a mean shrunk toward the overall mean breaks ties.

    The score is one number: the count plus the place, from 0 to below 1, of the shrunk mean among all numbers, where
    the overall mean has the place ½. An item without ratings is never listed.

    Only the top is kept in order, and items that have changed are sorted into it when it is asked for: of a million
    items, sorting all would take as long as ten requests.
    """

    def __init__(self) -> None:
        self._counts, self._sums = (Growing(np.zeros(0, dtype=np.int64)) for _ in range(2))
        self._n_ratings = self._sum = 0
        self._top: NDArray[np.int64] | None = None  # rows, best first; None where it must be found anew
        self._bound = LOWEST  # what comes after it in order is not in the top
        self._changed: list[NDArray[np.integer]] = []  # rows that have changed since, some of them repeatedly
        self._n_changed = 0

    @property
    def n_ratings(self) -> int:
        """Ratings counted."""
        return self._n_ratings

    def recount(self, rows: Rows, n_items: int) -> None:
        """Start anew from all ratings."""
        used = np.repeat(rows.starts - np.cumsum(rows.lengths) + rows.lengths, rows.lengths)
        used += np.arange(len(used))
        self._counts, self._sums = (Growing(np.zeros(0, dtype=np.int64)) for _ in range(2))
        self._n_ratings, self._sum, self._top = 0, 0, None
        none = np.full(len(used), np.nan, dtype=np.float32)
        self.note(rows.items[used], none, rows.values[used], n_items)

    def note(
        self, items: NDArray[np.integer], old: NDArray[np.float32], new: NDArray[np.float32], n_items: int
    ) -> None:
        """Take in changes of ratings; NaN stands for none."""
        self._counts.grow(n_items)
        self._sums.grow(n_items)
        had, has = ~np.isnan(old), ~np.isnan(new)
        counts, sums = has.astype(np.int64) - had, _in_units(np.where(has, new, 0)) - _in_units(np.where(had, old, 0))
        np.add.at(self._counts.values, items, counts)
        np.add.at(self._sums.values, items, sums)
        self._n_ratings += int(counts.sum())
        self._sum += int(sums.sum())
        if self._top is not None:
            self._changed.append(items)
            self._n_changed += len(items)
            if self._n_changed > MOST_CHANGES:
                self._hold(None)

    def best(
        self,
        n: int,
        offset: int,
        shown: NDArray[np.bool_],
        candidates: NDArray[np.integer] | None = None,
        min_ratings: int = 0,
    ) -> tuple[list[int], list[float]]:
        """Rows and scores of the `n` most popular items behind the first `offset`, of those where `shown` (N,).

        Args:
            candidates: the only rows to rank, (B,). Default: all.
            min_ratings: items with fewer are left out.
        """
        wanted, least = offset + n, max(min_ratings, 1)
        rows = self._shown_of(wanted, shown, least) if candidates is None else self._rated_of(candidates, shown)
        rows = rows[self._counts.values[rows] >= least][offset:wanted]
        return rows.tolist(), self._scores(rows).tolist()

    def _shown_of(self, wanted: int, shown: NDArray[np.bool_], least: int) -> NDArray[np.int64]:
        """At least so many of the best where `shown`, in order; where that is less, all with `least` ratings."""
        top = self._found(wanted) if self._top is None else self._ordered(self._top)
        rows = top[shown[top]]
        while len(rows) < wanted and len(top) < np.count_nonzero(self._counts.values >= least):
            top = self._found(2 * len(top) + wanted)
            rows = top[shown[top]]
        return rows

    def _rated_of(self, candidates: NDArray[np.integer], shown: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Those of `candidates` with ratings where `shown`, in order."""
        rows = np.unique(candidates[candidates < len(self._counts.values)]).astype(np.int64)
        return self._sorted(rows[shown[rows] & (self._counts.values[rows] > 0)])

    def _ordered(self, top: NDArray[np.int64]) -> NDArray[np.int64]:
        """The top with what has changed since in its place; what fell behind the bound leaves it."""
        if not self._changed:
            return top
        rows = np.concatenate([top, *self._changed])
        counts, sums = self._counts.values[rows], self._sums.values[rows]
        count, total, row = self._bound
        is_even = (counts == count) & ((sums > total) | ((sums == total) & (rows <= row)))
        return self._hold(self._sorted(np.unique(rows[(counts > count) | is_even])))

    def _found(self, wanted: int) -> NDArray[np.int64]:
        """At least so many of the best, from all rows; as many as there are where that is less."""
        rows, n = np.flatnonzero(self._counts.values), max(wanted, TOP)
        top = self._sorted(rows if len(rows) <= n else self._best_of(rows, n))
        held = self._hold(top[:MOST_HELD])
        self._bound = LOWEST
        if len(held) < len(rows):
            self._bound = self._counts.values[held[-1]], self._sums.values[held[-1]], held[-1]
        return top

    def _hold(self, top: Top) -> Top:
        """Take `top` for the present order."""
        self._top, self._changed, self._n_changed = top, [], 0
        return top

    def _best_of(self, rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """The `n` best of `rows`, which are more, in any order."""
        counts = self._counts.values[rows]
        least = np.partition(counts, -n)[-n]
        more, even = rows[counts > least], rows[counts == least]
        n_even, sums = n - len(more), self._sums.values[even]
        least = np.partition(sums, -n_even)[-n_even]
        higher, last = even[sums > least], even[sums == least]
        return np.concatenate([more, higher, last[: n_even - len(higher)]])

    def _sorted(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows[np.lexsort((rows, -self._sums.values[rows], -self._counts.values[rows]))]

    def _scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The place of a mean at a distance d from the overall one is ½ + arctan(d) / π."""
        counts, sums = self._counts.values[rows], self._sums.values[rows]
        beyond = (sums - counts * (self._sum / max(self._n_ratings, 1))) / UNITS
        scores: NDArray[np.float64] = counts + 0.5 + np.arctan(beyond / (counts + SHRINKAGE)) / np.pi
        return scores


def _in_units(values: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.rint(values.astype(np.float64) * UNITS).astype(np.int64)
