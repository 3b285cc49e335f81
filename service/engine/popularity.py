"""`Popularity`: ranks items by popularity, for users without ratings and while no model is live."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpu.growing import Growing
from gpu.ratings import Rows

SHRINKAGE = 10  # ratings of average value that are added to those of every item
UNITS = 1 << 20  # per rating point; sums are integers, so that they do not depend on the order of changes
MIN_TOP, MAX_TOP = 1024, 4096  # items that are kept in order: at least, and at most after requests for deep pages
MAX_CHANGES = 1 << 16  # changed items; with more, sorting all items is faster than sorting the changes in
LOWEST = (1, int(np.iinfo(np.int64).min), 0)  # count, sum and row

Top = TypeVar("Top", NDArray[np.int64], None)


class Popularity:
    """Ranks items by number of ratings; the mean rating, shrunk toward the overall mean, breaks ties.

    The score is the count plus a fraction from 0 to below 1 that grows with the shrunk mean and is ½ at the overall
    mean. An item without ratings is never listed.

    Only the top is kept in order, and changed items are sorted into it at the next request: sorting a million items
    would take as long as ten requests.
    """

    def __init__(self) -> None:
        self._counts, self._sums = (Growing(np.zeros(0, dtype=np.int64)) for _ in range(2))
        self._n_ratings = self._sum = 0
        self._top: NDArray[np.int64] | None = None  # rows, best first; None: must be sorted from all items
        self._bound = LOWEST  # items that rank below it are not in the top
        self._changed: list[NDArray[np.integer]] = []  # rows that have changed since, with duplicates
        self._n_changed = 0

    @property
    def n_ratings(self) -> int:
        """Ratings counted."""
        return self._n_ratings

    def recount(self, rows: Rows, n_items: int) -> None:
        """Count again from all ratings."""
        used = np.repeat(rows.starts - np.cumsum(rows.lengths) + rows.lengths, rows.lengths)
        used += np.arange(len(used))
        self._counts, self._sums = (Growing(np.zeros(0, dtype=np.int64)) for _ in range(2))
        self._n_ratings, self._sum, self._top = 0, 0, None
        none = np.full(len(used), np.nan, dtype=np.float32)
        self.note(rows.items[used], none, rows.values[used], n_items)

    def note(
        self, items: NDArray[np.integer], old: NDArray[np.float32], new: NDArray[np.float32], n_items: int
    ) -> None:
        """Count changes of ratings; NaN stands for no rating."""
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
            if self._n_changed > MAX_CHANGES:
                self._hold(None)

    def best(
        self,
        n: int,
        offset: int,
        shown: NDArray[np.bool_],
        candidates: NDArray[np.integer] | None = None,
        min_ratings: int = 0,
    ) -> tuple[list[int], list[float]]:
        """Rows and scores of the `n` most popular items after the first `offset`.

        Args:
            shown: items that may be listed, bool (I,).
            candidates: the only rows to rank, (B,). Default: all.
            min_ratings: items with fewer ratings are left out.
        """
        wanted, least = offset + n, max(min_ratings, 1)
        rows = self._shown_of(wanted, shown, least) if candidates is None else self._rated_of(candidates, shown)
        rows = rows[self._counts.values[rows] >= least][offset:wanted]
        return rows.tolist(), self._scores(rows).tolist()

    def _shown_of(self, wanted: int, shown: NDArray[np.bool_], least: int) -> NDArray[np.int64]:
        """At least `wanted` of the best shown items, in order; or all with `least` ratings if there are fewer."""
        top = self._rank_all(wanted) if self._top is None else self._ordered(self._top)
        rows = top[shown[top]]
        while len(rows) < wanted and len(top) < np.count_nonzero(self._counts.values >= least):
            top = self._rank_all(2 * len(top) + wanted)
            rows = top[shown[top]]
        return rows

    def _rated_of(self, candidates: NDArray[np.integer], shown: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The shown `candidates` that have ratings, in order."""
        rows = np.unique(candidates[candidates < len(self._counts.values)]).astype(np.int64)
        return self._sorted(rows[shown[rows] & (self._counts.values[rows] > 0)])

    def _ordered(self, top: NDArray[np.int64]) -> NDArray[np.int64]:
        """The top after sorting in the changed items; items that fell below the bound leave it."""
        if not self._changed:
            return top
        rows = np.concatenate([top, *self._changed])
        counts, sums = self._counts.values[rows], self._sums.values[rows]
        count, total, row = self._bound
        is_even = (counts == count) & ((sums > total) | ((sums == total) & (rows <= row)))
        return self._hold(self._sorted(np.unique(rows[(counts > count) | is_even])))

    def _rank_all(self, wanted: int) -> NDArray[np.int64]:
        """At least `wanted` of the best items, or all if there are fewer, ranked from all rows."""
        rows, n = np.flatnonzero(self._counts.values), max(wanted, MIN_TOP)
        top = self._sorted(rows if len(rows) <= n else self._best_of(rows, n))
        held = self._hold(top[:MAX_TOP])
        self._bound = LOWEST
        if len(held) < len(rows):
            self._bound = self._counts.values[held[-1]], self._sums.values[held[-1]], held[-1]
        return top

    def _hold(self, top: Top) -> Top:
        """Store `top` as the present order."""
        self._top, self._changed, self._n_changed = top, [], 0
        return top

    def _best_of(self, rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """The `n` best of `rows`, in any order. `rows` must be longer than `n`."""
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
        """Count plus ½ + arctan(d) / π, where d is the difference of the shrunk mean to the overall mean."""
        counts, sums = self._counts.values[rows], self._sums.values[rows]
        beyond = (sums - counts * (self._sum / max(self._n_ratings, 1))) / UNITS
        scores: NDArray[np.float64] = counts + 0.5 + np.arctan(beyond / (counts + SHRINKAGE)) / np.pi
        return scores


def _in_units(values: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.rint(values.astype(np.float64) * UNITS).astype(np.int64)
