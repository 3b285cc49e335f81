"""`Trending`: ranks items by ratings and events that lose half of their weight in every half-life.

The order is that of `gpu.trend.host_counts`. It depends on the pairs alone, not on the present time: without new ones
it stays, and old ratings that are imported have the trends of their time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.data.decay import DAY_S
from gpu.trend.host_counts import BLOCK, UNIT_BITS, DecayedCounts, Moves
from service.engine.lists.top_items import TopItems


class Trending(TopItems):
    """Ranks items by the decayed number of their pairs with a strength of 0 or more.

    The score is the sum of 2^(−age/h) over the pairs, where the age counts up to the last entry.

    Attributes:
        counts: the decayed numbers.
    """

    def __init__(self, half_life_s: float) -> None:
        super().__init__()
        self.counts, self._now_s = DecayedCounts(half_life_s), 0.0
        self._firsts = self.counts.sums

    def clear(self) -> None:
        """Start again without pairs."""
        self.counts.clear()
        self._hold(None)

    def note(self, moves: Moves, n_items: int, now_s: float) -> None:
        """Count pairs that came and went, among `n_items`; `now_s` is the time of the last entry, Unix seconds."""
        self._now_s = max(self._now_s, now_s)
        rows = self.counts.note(moves, n_items)
        self._grow(n_items)
        if rows is None:
            self._hold(None)
        else:
            self._touch(rows)

    def _scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        passed = self._now_s / self.counts.half_life_s - self.counts.newest * BLOCK  # since the newest landmark
        scores: NDArray[np.float64] = self._firsts.values[rows] * 2.0 ** -(UNIT_BITS + passed)
        return scores


class Days:
    """How long pairs are spread over time, from their number on each day; a function of the present pairs alone."""

    def __init__(self) -> None:
        self._n_pairs: dict[int, int] = {}

    def clear(self) -> None:
        """Start again without pairs."""
        self._n_pairs.clear()

    def note(self, moves: Moves) -> None:
        """Count pairs that came and went."""
        days, of_pair = np.unique(np.floor(moves.times / DAY_S).astype(np.int64), return_inverse=True)
        changes = np.bincount(of_pair, weights=moves.signs, minlength=len(days)).astype(np.int64)
        for day, change in zip(days.tolist(), changes.tolist(), strict=True):
            n_pairs = self._n_pairs.get(day, 0) + change
            if n_pairs:
                self._n_pairs[day] = n_pairs
            else:
                self._n_pairs.pop(day, None)

    def span(self, ends: tuple[float, float]) -> int:
        """Days between the quantiles `ends` of all times; 0 without pairs."""
        days = np.array(sorted(day for day, n_pairs in self._n_pairs.items() if n_pairs > 0))
        if not len(days):
            return 0
        below = np.cumsum([self._n_pairs[day] for day in days.tolist()])
        first, last = (int(days[np.searchsorted(below, end * below[-1])]) for end in ends)
        return last - first
