"""Item weights of next on the host: sums over pairs of items by Numba, systems by LAPACK (`gpu.next.trainer`)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray
from scipy.linalg import lapack

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.next.histories import Histories
from gpu.next.objective import UNIT, in_fixed_point, no_inverse

BLOCK = 256  # edge of the tiles that are mirrored
PAIR_BYTES = 64  # bytes of what a user has met: items, places and their order
STRIDE = 64  # groups of items; each takes every `STRIDE`-th item by number of users, so they take about as long


def bytes_needed(n_items: int, n_pairs: int) -> int:
    """Bytes that a training takes beside its ratings: XᵀX and XᵀY, weights twice, and what users have met."""
    return (2 * 8 + 2 * 4) * n_items**2 + PAIR_BYTES * n_pairs


def sums(
    histories: Histories, curve: NDArray[np.float64], n_items: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(XᵀX (T, T), (XᵀY)ᵀ (T, T): a row for each next item), float64."""
    items, n_newer = histories.packed()
    places, counts = np.argsort(items, kind="stable"), np.bincount(items, minlength=n_items)
    firsts, popular = np.cumsum(counts) - counts, np.argsort(-counts, kind="stable")
    together, following = np.zeros((2, n_items, n_items), dtype=np.int64)
    add_pairs(items, n_newer, places, firsts, counts, popular, *in_fixed_point(curve), together, following)
    gram, cross = together.view(np.float64), following.view(np.float64)
    for first in range(0, n_items, BLOCK):
        rows = slice(first, first + BLOCK)
        cross[rows] = following[rows] / UNIT
        for second in range(first, n_items, BLOCK):
            columns = slice(second, second + BLOCK)
            tile = (together[rows, columns] + together[columns, rows].T) / UNIT
            if first == second:
                tile[np.diag_indices_from(tile)] /= 2
            gram[rows, columns], gram[columns, rows] = tile, tile.T
    return gram, cross


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True)
def add_pairs(
    items: NDArray[np.int32],
    n_newer: NDArray[np.int32],
    places: NDArray[np.int64],
    firsts: NDArray[np.int64],
    counts: NDArray[np.int64],
    popular: NDArray[np.int64],
    weights: NDArray[np.int64],
    shared: Annotated[NDArray[np.int64], 2],
    together: Annotated[NDArray[np.int64], 2],
    following: Annotated[NDArray[np.int64], 2],
) -> None:
    """Add up XᵀX and XᵀY of all pairs of items within a window.

    Two items of a user, i before j by d places, where j has m newer ones, add C_dm to `together[j, i]` and w_d to
    `following[j, i]`. A thread owns the rows j of its items, so there are no races; sums are integers, so their order
    does not matter. The other half of the symmetric XᵀX is left 0.
    """
    window = len(weights) - 1
    for group in prange(STRIDE):
        for rank in range(group, len(popular), STRIDE):
            item = popular[rank]
            for n in range(firsts[item], firsts[item] + counts[item]):
                place = places[n]
                left = n_newer[place]
                together[item, item] += shared[0, min(left, window)]
                for d in range(1, window + 1):
                    if place - d < 0 or n_newer[place - d] != left + d:
                        break  # another user's
                    before = items[place - d]
                    following[item, before] += weights[d]
                    if d < window:
                        together[item, before] += shared[d, min(left, window)]


def item_weights(gram: NDArray[np.float64], cross: NDArray[np.float64], ridge: float) -> NDArray[np.float32]:
    """W = (XᵀX + λ)⁻¹ XᵀY, float32 (T, T), a row for each item before; overwrites both sums.

    Raises:
        TrainingDiverged: XᵀX + λ has no inverse in float64.
    """
    return np.ascontiguousarray(solved(gram, ridge, cross.T).astype(np.float32))


def scores(
    gram: NDArray[np.float64], cross: NDArray[np.float64], ridge: float, inputs: NDArray[np.float32]
) -> NDArray[np.float32]:
    """X W of users with these `inputs` x (B, T), without W and in float32, which a choice needs: float32 (B, T).

    Overwrites `inputs`.
    """
    left = solved(gram.astype(np.float32), ridge, inputs.T)
    return np.asarray(left.T @ cross.T.astype(np.float32))


def solved(gram: NDArray[np.floating], ridge: float, targets: NDArray[np.floating]) -> NDArray[np.floating]:
    """(XᵀX + λ)⁻¹ Y by Cholesky, on all threads; `targets` Y (T, B) are in the order of Fortran. Overwrites both."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - only a training needs it

    gram[np.diag_indices_from(gram)] += ridge
    factorize, solve = lapack.get_lapack_funcs(("potrf", "potrs"), (gram,))
    with threadpool_limits(limits=get_num_threads(), user_api="blas"):
        factor, fault = factorize(gram.T, lower=0, clean=0, overwrite_a=1)
        if not fault:
            solution, fault = solve(factor, targets, lower=0, overwrite_b=1)
    if fault:
        raise no_inverse()
    return np.asarray(solution)
