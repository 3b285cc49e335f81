"""Finds the ratings that count where a file has several of one user for one item."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BITS = 63  # of an int64 that is not negative


def newest_of_each_pair(
    users: NDArray[np.int32], items: NDArray[np.int32], n_items: int, times: NDArray[np.float64] | None
) -> NDArray[np.int64] | None:
    """Positions, ascending, of the rating of each (user, item) with the newest time; None if each pair occurs once.

    Args:
        users, items: rows from 0, (N,).
        n_items: rows of items.
        times: (N,); None: the last position of a pair counts, as it does among equal times.
    """
    pairs = users.astype(np.int64)
    pairs *= max(n_items, 1)
    pairs += items
    ordered, order = _ordered(pairs)
    starts_anew = np.ones(len(pairs), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=starts_anew[1:])
    if starts_anew.all():
        return None
    starts = np.flatnonzero(starts_anew)
    if times is not None:
        by_pair = times[order]
        newest = np.maximum.reduceat(by_pair, starts)
        order[by_pair != np.repeat(newest, np.diff(starts, append=len(pairs)))] = -1
    kept: NDArray[np.int64] = np.sort(np.maximum.reduceat(order, starts))
    return kept


def _ordered(pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs in ascending order, and their positions: ascending among equal ones.

    Sorting numbers is several times faster than sorting by them, so both go into one number where it has room.
    """
    n_bits = max(len(pairs) - 1, 1).bit_length()
    if int(pairs.max(initial=0)).bit_length() + n_bits > _BITS:
        order = np.argsort(pairs, kind="stable")
        return pairs[order], order
    both = pairs << n_bits
    both |= np.arange(len(pairs))
    both.sort()
    np.right_shift(both, n_bits, out=pairs)
    both &= (1 << n_bits) - 1
    return pairs, both
