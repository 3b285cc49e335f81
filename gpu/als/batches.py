"""Out of core: how ALS trains on ratings that do not fit into memory.

They stay where they are, such as in the mapped files of a partition store. Each half-iteration loads them in batches of
rows, the next batch while the one before is solved. Tables stay in memory. If a device has too little for them, only
float16 rows stay: float32 ones lie in host memory, are loaded with the ratings of their batch, and go back solved. If
it has too little for those too, float16 rows that a half adds up over lie there as well, and are loaded in waves.

A row is solved as if all ratings were there, so tables have the bits of a training in memory. But for mode "reduce" of
several ranks, where the number of batches may change rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.als import host as als
from gpu.als import host_stream as stream
from gpu.als import host_sums as sums
from gpu.als.halves import Division, bounds_of, own_of
from gpu.als.objective import RATING_BYTES, AlsObjective, Extent, width
from gpu.als.sum_batches import WAVE_SHARE, fewest
from gpu.base.backend import Backend
from gpu.data.memory import check_training
from gpu.data.ratings import Ratings, Rows
from gpu.data.views import lengths_within
from gpu.ranks.exchange import Exchange, most

MORE = 1.25  # times as many batches are tried next in mode "reduce"


class Batches(NamedTuple):
    """How rows of users and of items are loaded; see `gpu.als.halves.Side`.

    Attributes:
        waves: of the half that solves users, and of the one that solves items.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    on_host: bool = False
    waves: tuple[NDArray[np.int64] | None, NDArray[np.int64] | None] = (None, None)


def batches_of(
    ratings: Ratings, problem: AlsObjective, backend: Backend, exchange: Exchange, division: Division
) -> Batches | None:
    """The fewest batches with which a training fits; None if all ratings fit. All ranks must call it.

    On the host, ratings are in memory already: only `Backend.limit_bytes` can make a training load them in batches.

    Args:
        problem: an `AlsObjective`.
        exchange, division: the ranks that train together, and how.

    Raises:
        NotEnoughMemory: the training does not fit, even if each row is loaded alone.
    """
    twin, rows, modes = backend.twin, (ratings.by_user, ratings.by_item), (division.modes.users, division.modes.items)
    bounds = [bounds_of(side, division.shares) for side in rows]
    own = [own_of(ends, exchange) for ends in bounds]
    users, items = extents = [
        Extent(len(side.lengths), side.lengths[mine], mode == "gather")
        for side, mine, mode in zip(rows, own, modes[::-1], strict=True)
    ]
    summed = [
        None if mode == "gather" else _Summed(side, bounds[n], own[1 - n], exchange.rank, problem, backend)
        for n, (side, mode) in enumerate(zip(rows, modes, strict=True))
    ]
    room = backend.free_bytes() - backend.kept_bytes
    side_bytes = twin(als.side_bytes) if backend.limit_bytes is None else twin(stream.side_bytes)
    needed = twin(als.base_bytes)(users, items, problem)
    for extent, other, half in zip(extents, extents[::-1], summed, strict=True):
        needed += half.resident_bytes() if half else side_bytes(extent.lengths, other.n_rows, problem)
    if not most(exchange, needed > room):
        return None
    if not twin(stream.can_stream)(problem):
        check_training(needed, problem.n_factors, ratings, backend)
    n_buffers, sizes, asked = twin(stream.n_buffers)(), [np.zeros(0, dtype=np.int64)] * 2, needed
    can_load = twin(als.can_load_rows)(problem)
    levels = [(False, False), (True, False), (True, True)][: 1 + can_load + (can_load and any(summed))]
    for on_host, in_waves in levels:
        if in_waves:
            users, items = extents = [one._replace(in_waves=not one.is_shared) for one in extents]
        base, read = twin(stream.base_bytes)(users, items, problem, on_host=on_host), twin(sums.fixed_bytes)(problem)
        row = [4 * width(problem) * on_host + read * extent.in_waves for extent in extents]
        for n, (extent, other, half) in enumerate(zip(extents, extents[::-1], summed, strict=True)):
            if half is None:
                sizes[n] = twin(stream.row_bytes)(extent.lengths, other.n_rows, problem) + row[n]
            elif in_waves:
                wanted = min(room // WAVE_SHARE, (room - base) // (2 * n_buffers))  # half of the rest is for sums
                half.load_in_waves(read + (RATING_BYTES + 1) * other.lengths, wanted)
        longest = max(int(size.max(initial=0)) for size in sizes)
        q, slots, loads = _fewest_batches(summed, row, longest, (room - base, n_buffers))
        least = base + slots + n_buffers * loads
        asked = min(asked, least)
        if not most(exchange, least > room):
            break
    if least > room:
        how = ", with ratings in batches of a row each," if asked < needed else ""
        check_training(asked, problem.n_factors, ratings, backend, how)
    q = most(exchange, q)
    for_loads = (room - base - slots) // n_buffers
    of_users, of_items = (
        np.arange(min(q, half.q_most) + 1) if half else cut(size, for_loads)
        for half, size in zip(summed, sizes, strict=True)
    )
    of_halves = [half.waves() if half else None for half in summed]
    return Batches(of_users, of_items, on_host, (of_halves[0], of_halves[1]))


def _fewest_batches(
    summed: Sequence[_Summed | None], row: Sequence[int], longest: int, room: tuple[int, int]
) -> tuple[int, int, int]:
    """(q, bytes of sums, bytes of the largest load) for the smallest q that fits; for the largest one if none does.

    Args:
        summed, row: of both halves; None in mode "gather".
        longest: bytes of the longest row of a half in mode "gather".
        room: bytes for sums and loads, and how many loads are there together.
    """
    q, q_most = 1, max(half.q_most if half else 1 for half in summed)
    while True:
        found = [half.bytes_of(q, each) if half else (0, longest) for half, each in zip(summed, row, strict=True)]
        slots, loads = (max(sizes) for sizes in zip(*found, strict=True))
        if slots + room[1] * loads <= room[0] or q == q_most:
            return q, slots, loads
        q = min(q_most, int(MORE * q) + 1)


class _Summed:
    """What the half of a side in mode "reduce" takes of a rank's memory.

    Attributes:
        q_most: batches, at most: one for each row of the rank with most rows.
    """

    _fixed: NDArray[np.int64] | None = None
    _wave = 0

    def __init__(
        self, rows: Rows, bounds: NDArray[np.int64], columns: slice, rank: int, problem: AlsObjective, backend: Backend
    ) -> None:
        """Count the ratings over the fixed rows `columns` of this rank; `bounds` int64 (P + 1,) of `rows`."""
        lengths = lengths_within(rows, columns)
        self._ends = np.concatenate([[0], np.cumsum(lengths)])
        self._bounds, self._rank = bounds, rank
        self._problem, self._twin = problem, backend.twin
        self.q_most = int(np.diff(bounds).max())

    def load_in_waves(self, sizes: NDArray[np.int64], wanted: int) -> None:
        """Count fixed rows as loaded in waves.

        Args:
            sizes: int64 (fixed rows of this rank,), bytes of each, with its ratings and, at most, their work items.
            wanted: bytes that a wave should have, if there are as many.
        """
        self._fixed, self._wave = sizes, max(int(sizes.max(initial=0)), min(int(sizes.sum()), wanted))

    def bytes_of(self, q: int, row_bytes: int) -> tuple[int, int]:
        """(bytes of sums, bytes of the largest batch or wave), if there are q batches, or as many as a rank has rows.

        Args:
            row_bytes: what is loaded of each row that this rank solves.
        """
        slots, loads, own = self._bytes_of(min(q, self.q_most))
        return slots, int((loads + row_bytes * own).max()) + self._wave

    def waves(self) -> NDArray[np.int64] | None:
        """Their bounds; None if fixed rows are not loaded."""
        if self._fixed is None:
            return None
        found = cut(self._fixed, self._wave)
        return found if len(found) > 1 else np.zeros(2, dtype=np.int64)

    def resident_bytes(self) -> int:
        """Bytes if all ratings stay in memory."""
        slots, loads, _ = self._bytes_of(fewest(self._bounds, self._twin(sums.most_rows)(self._problem)))
        return slots + int(loads.sum())

    def _bytes_of(self, q: int) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        """(bytes of sums, bytes of each batch, rows of this rank in each), as in `gpu.als.sum_batches`."""
        edges = self._bounds[:-1] + np.diff(self._bounds) * np.arange(q + 1)[:, None] // q
        n_rows, n_ratings = np.diff(edges, axis=0), np.diff(self._ends[edges], axis=0).sum(axis=1)
        most_rows, most_ratings, own = int(n_rows.sum(axis=1).max()), int(n_ratings.max()), n_rows[:, self._rank]
        totals = 0
        if self._fixed is not None:  # sums of a wave, and of all waves; `_wave` has the ratings
            most_ratings, n_ratings = min(most_ratings, self._wave // RATING_BYTES), np.zeros_like(n_ratings)
            totals = self._twin(sums.slots_bytes)(most_rows, 0, self._problem)
        slots = self._twin(sums.slots_bytes)(most_rows, most_ratings, self._problem)
        return totals + slots, self._twin(sums.batch_bytes)(n_ratings, n_rows.sum(axis=1), own), own


def cut(sizes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Bounds, int64 (q + 1,), of the fewest runs of rows with at most `most` bytes each, about equally large.

    Args:
        sizes: int64 (rows,), bytes of each row.
        most: at least the largest of them.
    """
    ends = np.cumsum(sizes)
    bounds = _greedy(ends, most)
    low, high = max(int(sizes.max(initial=0)), 1), most
    while low < high:  # the smallest runs of the same number
        middle = (low + high) // 2
        found = _greedy(ends, middle)
        if len(found) <= len(bounds):
            bounds, high = found, middle
        else:
            low = middle + 1
    return bounds


def _greedy(ends: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    bounds, before = [0], 0
    while bounds[-1] < len(ends):
        bounds.append(int(np.searchsorted(ends, before + most, side="right")))
        before = int(ends[bounds[-1] - 1])
    return np.array(bounds, dtype=np.int64)
