"""`TopItems`: ranks all items by numbers that change, and keeps the best ones in order."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpu.base.growing import Growing

MIN_TOP, MAX_TOP = 1024, 4096  # items that are kept in order: at least, and at most after requests for deep pages
MAX_CHANGES = 1 << 16  # changed items; with more, sorting all items is faster than sorting the changes in
LOWEST = (1, int(np.iinfo(np.int64).min), 0)  # first and second number, and row

Top = TypeVar("Top", NDArray[np.int64], None)


class TopItems:
    """Ranks items by a first number, then by a second one, the largest first; ties to the lower row.

    An item whose first number is 0 is never listed. Only the top is kept in order, and changed items are sorted into it
    at the next request: sorting a million items would take as long as ten requests.
    """

    def __init__(self) -> None:
        self._firsts, self._seconds = (Growing(np.zeros(0, dtype=np.int64)) for _ in range(2))
        self._top: NDArray[np.int64] | None = None  # rows, best first; None: must be sorted from all items
        self._bound = LOWEST  # items that rank below it are not in the top
        self._changed: list[NDArray[np.integer]] = []  # rows that have changed since, with duplicates
        self._n_changed = 0

    def clear(self) -> None:
        """Start again without items."""
        self._firsts, self._seconds = (Growing(np.zeros(0, dtype=np.int64)) for _ in range(2))
        self._hold(None)

    def _grow(self, n_items: int) -> None:
        self._firsts.grow(n_items)
        self._seconds.grow(n_items)

    def _touch(self, items: NDArray[np.integer]) -> None:
        """The numbers of these items have changed."""
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
        least: int = 1,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows and scores of the `n` best items after the first `offset`.

        Args:
            shown: items that may be listed, bool (I,).
            candidates: the only rows to rank, (B,). Default: all.
            least: items with a smaller first number are left out.
        """
        wanted, least = offset + n, max(least, 1)
        if candidates is None:
            rows = self._shown_of(wanted, shown, least)
        else:
            rows = np.unique(candidates[candidates < len(self._firsts.values)]).astype(np.int64)
            rows = self._sorted(rows[shown[rows] & (self._firsts.values[rows] > 0)])
        rows = rows[self._firsts.values[rows] >= least][offset:wanted]
        return rows, self._scores(rows)

    def _shown_of(self, wanted: int, shown: NDArray[np.bool_], least: int) -> NDArray[np.int64]:
        """At least `wanted` of the best shown items, in order; or all that reach `least` if there are fewer."""
        top = self._rank_all(wanted) if self._top is None else self._ordered(self._top)
        rows = top[shown[top]]
        while len(rows) < wanted and len(top) < np.count_nonzero(self._firsts.values >= least):
            top = self._rank_all(2 * len(top) + wanted)
            rows = top[shown[top]]
        return rows

    def _ordered(self, top: NDArray[np.int64]) -> NDArray[np.int64]:
        """The top after sorting in the changed items; items that fell below the bound leave it."""
        if not self._changed:
            return top
        rows = np.concatenate([top, *self._changed])
        counts, sums = self._firsts.values[rows], self._seconds.values[rows]
        count, total, row = self._bound
        is_even = (counts == count) & ((sums > total) | ((sums == total) & (rows <= row)))
        return self._hold(self._sorted(np.unique(rows[(counts > count) | is_even])))

    def _rank_all(self, wanted: int) -> NDArray[np.int64]:
        """At least `wanted` of the best items, or all if there are fewer, ranked from all rows."""
        rows, n = np.flatnonzero(self._firsts.values), max(wanted, MIN_TOP)
        top = self._sorted(rows if len(rows) <= n else self._best_of(rows, n))
        held = self._hold(top[:MAX_TOP])
        self._bound = LOWEST
        if len(held) < len(rows):
            self._bound = self._firsts.values[held[-1]], self._seconds.values[held[-1]], held[-1]
        return top

    def _hold(self, top: Top) -> Top:
        """Store `top` as the present order."""
        self._top, self._changed, self._n_changed = top, [], 0
        return top

    def _best_of(self, rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """The `n` best of `rows`, in any order. `rows` must be longer than `n`."""
        counts = self._firsts.values[rows]
        least = np.partition(counts, -n)[-n]
        more, even = rows[counts > least], rows[counts == least]
        n_even, sums = n - len(more), self._seconds.values[even]
        least = np.partition(sums, -n_even)[-n_even]
        higher, last = even[sums > least], even[sums == least]
        return np.concatenate([more, higher, last[: n_even - len(higher)]])

    def _sorted(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows[np.lexsort((rows, -self._seconds.values[rows], -self._firsts.values[rows]))]

    def _scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The scores that lists show."""
        raise NotImplementedError
