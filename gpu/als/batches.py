"""Out of core: how ALS trains on ratings that do not fit into memory.

They stay where they are, such as in the mapped files of a partition store. Each half-iteration loads them in batches of
rows that follow each other, the next batch while the one before is solved. Both tables stay in memory. A row is solved
as if all ratings were there, so tables have the bits of a training in memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.als import host as als
from gpu.als import host_stream as stream
from gpu.als import host_sums as sums
from gpu.als.halves import GATHER, Division, Modes, own_lengths, own_rows
from gpu.als.objective import AlsObjective
from gpu.base.backend import Backend
from gpu.data.memory import check_training
from gpu.data.ratings import Ratings
from gpu.ranks.exchange import Exchange


class Batches(NamedTuple):
    """Bounds of the batches in which rows of users and of items are loaded, int64 (q + 1,), from the first own row."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]


def batches_of(
    ratings: Ratings, problem: AlsObjective, backend: Backend, exchange: Exchange, division: Division
) -> Batches | None:
    """The fewest batches with which a training fits; None if all ratings fit.

    On the host, ratings are in memory already: only `Backend.limit_bytes` can make a training load them in batches.

    Args:
        exchange, division: the ranks that train together, and how. Mode "reduce" needs all ratings in memory.

    Raises:
        NotEnoughMemory: the training does not fit, even if each row is loaded alone.
    """
    twin, sides = backend.twin, (ratings.by_user, ratings.by_item)
    modes, shares = division
    lengths = own_lengths(sides[0], exchange, shares), own_lengths(sides[1], exchange, shares)
    needed = _sums_bytes(ratings, problem, backend, modes)
    if backend.limit_bytes is None:
        needed += twin(als.bytes_needed)(*lengths, problem)
    else:
        needed += twin(stream.resident_bytes)(*lengths, problem)
    room = backend.free_bytes() - backend.kept_bytes
    if needed <= room:
        return None
    if modes != GATHER or not twin(stream.can_stream)(problem):
        check_training(needed, problem.n_factors, ratings, backend)
    base = twin(stream.fixed_bytes)(*lengths, problem)
    columns = ratings.n_items, ratings.n_users
    sizes = [
        twin(stream.row_bytes)(rows.lengths, n, problem)[own_rows(rows, exchange, shares)]
        for rows, n in zip(sides, columns, strict=True)
    ]
    longest, n_buffers = max(int(size.max(initial=0)) for size in sizes), twin(stream.n_buffers)()
    least = base + n_buffers * longest
    if least > room:
        how = ", with ratings in batches of a row each," if least < needed else ""
        check_training(min(least, needed), problem.n_factors, ratings, backend, how)
    users, items = (cut(size, (room - base) // n_buffers) for size in sizes)
    return Batches(users, items)


def _sums_bytes(ratings: Ratings, problem: AlsObjective, backend: Backend, modes: Modes) -> int:
    """Bytes of the sums of halves in mode "reduce"."""
    halves = (modes.items, ratings.n_items), (modes.users, ratings.n_users)
    bytes_needed = backend.twin(sums.bytes_needed)
    return sum(bytes_needed(n_rows, problem) for mode, n_rows in halves if mode == "reduce")


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
