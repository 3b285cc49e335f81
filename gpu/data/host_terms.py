"""Terms of [004] eq. 1 on the host: the product of two rows, and the weighted residuals of rated neighbors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.data.host_bounds import learned
from gpu.data.host_evidence import merit
from gpu.data.ratings import Rows
from gpu.data.views import Arrays

UNRATED = np.float32(-1e30)
ABSENT = np.float32(-4e30)
IS_RATED = np.float32(-5e29)
_IS_PRESENT = np.float32(-2e30)
ONE = np.float32(1)
ZERO = np.float32(0)


def lines(n: int, n_items: int) -> NDArray[np.float32]:
    """`n` empty lines of residuals (n, I + 1); absent neighbors read the last entry."""
    empty = np.full((n, n_items + 1), UNRATED)
    empty[:, n_items] = ABSENT
    return empty


@njit(nogil=True, cache=True, error_model="numpy")
def fill(line: NDArray[np.float32], rows: Rows, user: int, arrays: Arrays) -> None:
    """Write the residuals of `user` into an empty line; for implicit models 1 for a like, −1 for a dislike."""
    base = arrays.mean + arrays.user_baseline[user]
    start = rows.starts[user]
    for p in range(start, start + rows.lengths[user]):
        item = rows.items[p]
        if arrays.is_implicit:
            line[item] = ONE if merit(rows.values[p], arrays.lift) >= arrays.middle else -ONE
        else:
            line[item] = learned(rows.values[p], arrays) - base - arrays.item_baseline[item]


@njit(nogil=True, cache=True, error_model="numpy")
def clear(line: NDArray[np.float32], rows: Rows, user: int) -> None:
    """Empty the line that `fill` has written."""
    start = rows.starts[user]
    for p in range(start, start + rows.lengths[user]):
        line[rows.items[p]] = UNRATED


# Inlined by LLVM: with `inline="always"` a kernel sums in another order if the process has just compiled it.
@njit(nogil=True, cache=True, fastmath=True, error_model="numpy", forceinline=True)
def neighbor_terms(
    item: int, line: NDArray[np.float32], arrays: Arrays, near: NDArray[np.float32]
) -> tuple[np.float32, np.float32, np.float32]:
    """(both neighbor sums of eq. 1, |R|^-½, |N|^-½) of `item`.

    It leaves the inputs in `near` (3, K): the residual (0 if not rated), 1 for neighbors in R, 1 for those in N. To
    gather first, and to use masks instead of branches, lets both loops become vector instructions.
    """
    absent = np.uint32(len(line) - 1)
    n_neighbors = arrays.neighbors.shape[1]
    for k in range(n_neighbors):
        near[0, k] = line[min(arrays.neighbors[item, k], absent)]
    explicit, implicit, n_rated, n_unrated = ZERO, ZERO, ZERO, ZERO
    for k in range(n_neighbors):
        found = near[0, k]
        near[1, k] = ONE if found > IS_RATED else ZERO
        near[2, k] = ONE - near[1, k] if found > _IS_PRESENT else ZERO
        near[0, k] = found if found > IS_RATED else ZERO
        explicit += near[0, k] * arrays.explicit_weights[item, k]
        implicit += near[2, k] * arrays.implicit_weights[item, k]
        n_rated += near[1, k]
        n_unrated += near[2, k]
    norm_rated = ONE / np.sqrt(max(n_rated, ONE))
    norm_unrated = ONE / np.sqrt(max(n_unrated, ONE))
    return norm_rated * explicit + norm_unrated * implicit, norm_rated, norm_unrated


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")
def dot(user: int, item: int, arrays: Arrays) -> np.float32:
    """U · v."""
    total = ZERO
    for f in range(arrays.user_factors.shape[1]):
        total += arrays.user_factors[user, f] * arrays.item_factors[item, f]
    return total
