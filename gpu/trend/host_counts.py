"""`DecayedCounts`: how many pairs each item has, those of older ones counting less.

Weights decay forward (Cormode et al. 2009, "Forward Decay"): a pair of the time t has the weight 2^((t − L)/h) against
a fixed landmark L, so that no count changes as time passes. Time is divided into blocks of `BLOCK` half-lives with a
landmark each. An item has the sums of the last `N_BLOCKS` blocks as integers; the newest block with a pair is the
last one. So they are exact, and the order of changes does not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.growing import Growing
from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.decay import DAY_S, Times
from gpu.data.evidence import amounts
from gpu.data.host_arena import Int
from gpu.data.ratings import Ratings
from gpu.data.signals import Trend

BLOCK = 16  # half-lives; weights of a block differ by a factor of 2 ** BLOCK
UNIT_BITS = 20  # a weight of 1 is 2 ** UNIT_BITS, so a block has room for 2 ** 27 pairs of an item
N_BLOCKS = 3  # what is older than two blocks weighs less than 2 ** -32 of what is new
STEPS = 8  # of `DecayedCounts.level`, in each factor of two
ENDS = 0.01, 0.99  # quantiles of times, whose distance is the span of the data
LEAST_SPAN = 2  # half-lives of the span; with fewer, there are no times to speak of
REMEMBERED = 256  # changes whose items are known; who asks for older ones looks at all items
NO_BLOCK = -(2**62)

Blocks = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # int64 (I,) each, the newest first


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def count(
    items: NDArray[np.int64],
    times: NDArray[np.float64],
    signs: NDArray[np.int64],
    half_life: float,
    newest: Int,
    sums: Blocks,
) -> None:
    """Add the weight of each pair, times its sign, to the block of its time; what is in no block is left out.

    Args:
        items, times, signs: of B pairs; times are in the unit of `half_life`.
        newest: index of the newest block.
        sums: changed in place.
    """
    for n in range(len(items)):
        halves = times[n] / half_life
        block = np.floor(halves / BLOCK)
        age = newest - block
        if 0 <= age < len(sums):
            weight = np.int64(np.rint(np.exp2(halves - block * BLOCK + UNIT_BITS)))
            sums[np.int64(age)][items[n]] += signs[n] * weight


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


class DecayedCounts:
    """Decayed numbers of pairs of each item; a function of the present pairs alone.

    Attributes:
        half_life_s: age in seconds at which a pair counts half.
        sums: int64 (I,), in units of 2^−`UNIT_BITS` pairs at the landmark of the newest block, rounded down.
        newest: the newest block with a pair; `NO_BLOCK` without pairs.
        must_recount: a pair that went was the last one of the newest block. Pairs of blocks that are gone may count
            again, so the owner must `clear` and `note` all pairs.
        n_changes: calls of `note` that changed sums.
    """

    def __init__(self, half_life_s: float) -> None:
        self.half_life_s, self.sums, self.n_changes = half_life_s, Growing(np.zeros(0, dtype=np.int64)), 0
        self._recent: deque[tuple[int, NDArray[np.int64] | None]] = deque(maxlen=REMEMBERED)
        self._start()

    def _start(self) -> None:
        n_items = len(self.sums.values)
        self._blocks = [Growing.filled((n_items,), np.int64) for _ in range(N_BLOCKS)]  # the newest one first
        self._n_pairs = [0] * N_BLOCKS  # of each block
        self.newest, self.must_recount, self._most = NO_BLOCK, False, 0

    def clear(self) -> None:
        """Start again without pairs."""
        self._start()
        self.sums.values[:] = 0
        self._note_change(None)

    def note(self, moves: Moves, n_items: int) -> NDArray[np.int64] | None:
        """Count pairs that came and went, among `n_items`; returns the rows whose sums may be others, None for all."""
        for grows in (self.sums, *self._blocks):
            grows.grow(n_items)
        if not len(moves.items):
            return moves.items
        ages = np.floor(moves.times / self.half_life_s / BLOCK).astype(np.int64)
        came = moves.signs > 0
        is_newer = bool(came.any()) and self._begin(int(ages[came].max()))
        newest, middle, oldest = (block.values for block in self._blocks)
        count(moves.items, moves.times, moves.signs, self.half_life_s, self.newest, (newest, middle, oldest))
        for age in range(N_BLOCKS):
            self._n_pairs[age] += int(moves.signs[ages == self.newest - age].sum())
        self.must_recount |= self._n_pairs[0] <= 0
        rows = None if is_newer or len(moves.items) >= n_items else np.unique(moves.items)
        where = slice(None) if rows is None else rows
        had_most = self.sums.values[where].max(initial=0) == self._most
        sums = np.zeros_like(self.sums.values[where])
        for age, block in enumerate(self._blocks):
            sums += block.values[where] >> (BLOCK * age)
        self.sums.values[where] = sums
        most = int(sums.max(initial=0))
        if had_most and most < self._most:  # it has fallen, and any other item may have the most now
            most = int(self.sums.values.max(initial=0))
        self._most = most if had_most else max(most, self._most)
        self._note_change(rows)
        return rows

    def _begin(self, block: int) -> bool:
        """Make `block` the newest one if it is newer, and drop the oldest ones; returns whether it is."""
        n_new = min(block - self.newest, N_BLOCKS)
        if n_new <= 0:
            return False
        n_items = len(self.sums.values)
        fresh = [Growing.filled((n_items,), np.int64) for _ in range(n_new)]
        self._blocks, self.newest = [*fresh, *self._blocks][:N_BLOCKS], block
        self._n_pairs = [*[0] * n_new, *self._n_pairs][:N_BLOCKS]
        return True

    def _note_change(self, rows: NDArray[np.int64] | None) -> None:
        self.n_changes += 1
        self._recent.append((self.n_changes, rows))

    def changed_since(self, n_changes: int) -> NDArray[np.int64] | None:
        """Rows whose sums may have changed since there were `n_changes`; None: any."""
        later = [rows for n, rows in self._recent if n > n_changes]
        if len(later) < self.n_changes - n_changes or any(rows is None for rows in later):
            return None
        return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(rows for rows in later if rows is not None)]))

    @property
    def level(self) -> int:
        """⌊`STEPS` · log2⌋ of the largest sum: a unit for shares that stays the same while sums change little.

        It moves with the landmark: an item's share does not depend on the block. 0 without pairs.
        """
        return int(np.floor(STEPS * np.log2(self._most))) if self._most > 0 else 0

    def shares(self, rows: NDArray[np.integer] | slice) -> NDArray[np.float64]:
        """Sums of `rows` (B,) in units of the `level`, float64 (B,): from 0 to 2^(1/`STEPS`)."""
        shares: NDArray[np.float64] = self.sums.values[rows] * 2.0 ** (-self.level / STEPS)
        return shares


def lifts_of_training(trend: Trend | None, ratings: Ratings, times: Times | None) -> NDArray[np.float32] | None:
    """What `trend` adds to the scores of all items as of the newest of these ratings, float32 (I,); None: nothing."""
    if trend is None or times is None or not trend.weight:
        return None
    counts, (_, items, values) = DecayedCounts(trend.half_life_days * DAY_S), ratings.coo()
    counts.note(Moves.of(items, values, times.seconds, 1), ratings.n_items)
    return (trend.weight * counts.shares(slice(None))).astype(np.float32)
