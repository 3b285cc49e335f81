"""Draws the items that a tested item competes with, when a model is tested before it learns (Cremonesi et al. 2010).

Draw k of a pair is the mix of SplitMix64 of its key plus k times the golden ratio, so it depends on the key alone.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.host_random import GOLDEN, MIX_1, MIX_2
from gpu.data.host_rating_table import find
from gpu.data.ratings import Rows
from gpu.ranking.host_estimate import MARKS, mark

_30, _27, _31, _11 = (np.uint64(n) for n in (30, 27, 31, 11))


@called_for(Use.RIVALS)
@njit(cache=True, nogil=True)
def draw(
    users: NDArray[np.int64],
    keys: NDArray[np.uint64],
    rows: Rows,
    counts: NDArray[np.int64],
    n_items: int,
    n_drawn: int,
    rivals: Annotated[NDArray[np.int64], 2],
) -> None:
    """Fill each row of `rivals` (P, 1 + R) behind its first column, the tested item, as far as the draws last.

    Args:
        users: rows of `rows`, (P,).
        keys: of the pairs, (P,).
        rows: what users have, ascending by item.
        counts: of each item; one that nobody has is no rival.
        n_items: items to draw from, with replacement.
        n_drawn: draws of a pair. Those of the tested item, and of items that the user has, are dropped.
    """
    may_have = np.empty(MARKS, dtype=np.bool_)
    for p in range(len(users)):
        mark(rows, users[p], may_have)
        start, length, tested, n = rows.starts[users[p]], rows.lengths[users[p]], rivals[p, 0], 1
        for k in range(1, n_drawn + 1):
            if n == rivals.shape[1]:
                break
            bits = keys[p] + np.uint64(k) * GOLDEN
            bits = (bits ^ (bits >> _30)) * MIX_1
            bits = (bits ^ (bits >> _27)) * MIX_2
            item = np.int64(np.float64((bits ^ (bits >> _31)) >> _11) * 2.0**-53 * n_items)
            if counts[item] == 0 or item == tested:
                continue
            position = find(rows.items, start, length, item) if may_have[item & (MARKS - 1)] else start + length
            if position == start + length or rows.items[position] != item:
                rivals[p, n] = item
                n += 1
