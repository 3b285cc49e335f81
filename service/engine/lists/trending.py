"""`Trending`: ranks items by ratings and events that lose half of their weight in every half-life.

Weights decay forward (Cormode et al. 2009, "Forward Decay"): a pair of the time t has the weight 2^((t − L)/h) against
a fixed landmark L, so that no count changes as time passes. Time is divided into blocks of `BLOCK` half-lives with a
landmark each. An item has the sums of the last `N_BLOCKS` blocks as integers. So they are exact, and the order of
changes does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.growing import Growing
from gpu.data.evidence import amounts
from gpu.data.host_trends import BLOCK, UNIT_BITS, count
from service.engine.lists.top_items import TopItems

N_BLOCKS = 3  # what is older than two blocks weighs less than 2 ** -32 of what is new


class Moves(NamedTuple):
    """Pairs that came or went, whose strength is 0 or more.

    Attributes:
        items: int64 (B,), rows.
        times: float64 (B,), Unix seconds.
        signs: int64 (B,), 1 for a pair that came, −1 for one that went.
    """

    items: NDArray[np.int64]
    times: NDArray[np.float64]
    signs: NDArray[np.int64]

    @classmethod
    def of(
        cls, items: NDArray[np.integer], values: NDArray[np.float32], times: NDArray[np.float64], sign: int
    ) -> Moves:
        """The pairs with these strengths; NaN, and ratings and events that add up to less than 0, are left out."""
        counts = amounts(values) >= 0
        return cls(items[counts].astype(np.int64), times[counts], np.full(np.count_nonzero(counts), sign))

    @classmethod
    def joined(cls, parts: Sequence[Moves]) -> Moves:
        """All parts; expects at least one."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class Trending(TopItems):
    """Ranks items by the decayed number of their pairs with a strength of 0 or more.

    The score is the sum of 2^(−age/h) over the pairs, where the age counts up to the last entry.
    """

    def __init__(self, half_life_s: float) -> None:
        super().__init__()
        self._half_life_s = half_life_s
        self._blocks = [Growing(np.zeros(0, dtype=np.int64)) for _ in range(N_BLOCKS)]  # the newest one first
        self._newest, self._now = 0, 0.0  # index of the newest block, and the time in half-lives

    def clear(self) -> None:
        """Start again without pairs."""
        super().clear()
        self._blocks = [Growing(np.zeros(0, dtype=np.int64)) for _ in range(N_BLOCKS)]
        self._newest = 0

    def note(self, moves: Moves, n_items: int, now_s: float) -> None:
        """Count pairs that came and went, among `n_items`; `now_s` is the time of the last entry, Unix seconds."""
        for block in self._blocks:
            block.grow(n_items)
        self._grow(n_items)
        self._pass_time(now_s)
        newest, middle, oldest = (block.values for block in self._blocks)
        count(moves.items, moves.times, moves.signs, self._half_life_s, self._newest, (newest, middle, oldest))
        rows = moves.items if len(moves.items) < n_items else slice(None)  # of many pairs, those of an item are many
        self._firsts.values[rows] = self._ranks(rows)
        self._touch(moves.items)

    def _pass_time(self, now_s: float) -> None:
        """Begin the block of `now_s`, if it is newer, and drop the oldest ones."""
        self._now = max(self._now, now_s / self._half_life_s)
        n_new = int(self._now // BLOCK) - self._newest
        if n_new <= 0:
            return
        self._newest += n_new
        n_items = len(self._firsts.values)
        fresh = [Growing.filled((n_items,), np.int64) for _ in range(min(n_new, N_BLOCKS))]
        self._blocks = [*fresh, *self._blocks][:N_BLOCKS]
        self._firsts.values[:] = self._ranks(slice(None))
        self._hold(None)

    def _ranks(self, items: NDArray[np.integer] | slice) -> NDArray[np.int64]:
        """The sums of all blocks in units of the newest one, rounded down; they decide the order."""
        ranks = np.zeros_like(self._firsts.values[items])
        for age, block in enumerate(self._blocks):
            ranks += block.values[items] >> (BLOCK * age)
        return ranks

    def _scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        passed = self._now - self._newest * BLOCK  # half-lives since the newest landmark
        scores: NDArray[np.float64] = self._firsts.values[rows] * 2.0 ** -(UNIT_BITS + passed)
        return scores
