"""Comparators of simLSH on the host: shared keys, exact Pearson similarity (GSM) and one-bit minHash."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray
from scipy import sparse

from gpu.base.host import njit, prange
from gpu.data.baselines import baselines
from gpu.data.host_random import GOLDEN, mix
from gpu.data.ratings import Ratings, Rows
from gpu.hashing.host_lsh import TASKS

if TYPE_CHECKING:
    from gpu.descent.params import CulshParams


BLOCK = 512  # items whose shared keys with all others are counted at once


class CenteredRows(NamedTuple):
    """Ratings less the mean of their item, row by row.

    Attributes:
        bounds: int64 (R + 1,), row r has the ratings `bounds[r]` to `bounds[r + 1]`.
        others: int32 (N,), rows of the other side.
        values: float64 (N,).
    """

    bounds: NDArray[np.int64]
    others: NDArray[np.int32]
    values: NDArray[np.float64]


def bytes_needed(ratings: Ratings, params: CulshParams) -> int:
    """Bytes for finding neighbors, in addition to the ratings.

    They count Ψ and its inputs (48 a rating), sums and signatures, and ranks and lists. `gsm` takes a line of moments
    for each thread instead, and `minhash` only signatures.
    """
    n_items, lists = ratings.n_items, 32 * ratings.n_items * params.n_neighbors
    if params.similarity == "gsm":
        return lists + 64 * n_items * get_num_threads()
    if params.similarity in ("minhash", "random"):
        return lists + params.n_bits // 8 * n_items
    return lists + 48 * len(ratings) + (4 * params.n_bits + params.n_bits // 8 + 64) * n_items


def by_keys(
    packed: NDArray[np.uint64], counts: NDArray[np.int64], k: int, n_bits: int, key_bits: int
) -> NDArray[np.int32]:
    """The k items that share most keys with each item, ties to the lower row, padded with −1; (I, k); [004].

    The first `n_bits` bits of a signature are cut into q = n_bits / key_bits keys. In [004] a key is p hashes of G
    bits. Only items with ratings have keys. It takes I · q steps for each pair that shares a key by chance.
    """
    rated, q = np.flatnonzero(counts), n_bits // key_bits
    bits = np.unpackbits(packed[rated].view(np.uint8), axis=1, bitorder="little")[:, : q * key_bits]
    words = bits.reshape(len(rated), q, key_bits) @ (np.uint64(1) << np.arange(key_bits, dtype=np.uint64))
    columns, n_columns = np.empty((len(rated), q), dtype=np.int64), 0
    for key in range(q):
        columns[:, key] = np.unique(words[:, key], return_inverse=True)[1] + n_columns
        n_columns = columns[:, key].max(initial=n_columns - 1) + 1
    ones, bounds = np.ones(columns.size, dtype=np.int32), q * np.arange(len(rated) + 1)
    own = sparse.csr_matrix((ones, columns.ravel(), bounds), (len(rated), n_columns))
    best, others = np.full((len(packed), k), -1, dtype=np.int32), own.T.tocsr()
    for first in range(0, len(rated), BLOCK):
        shared = (own[first : first + BLOCK] @ others).toarray()
        shared[np.arange(len(shared)), first + np.arange(len(shared))] = 0
        order = np.argsort(-shared, axis=1, kind="stable")[:, :k]
        n_shared = np.take_along_axis(shared, order, axis=1)
        best[rated[first : first + BLOCK], : order.shape[1]] = np.where(n_shared > 0, rated[order], -1)
    return best


def gsm(ratings: Ratings, k: int, shrinkage: float) -> NDArray[np.int32]:
    """The k items of largest positive shrunk Pearson correlation, best first, padded with −1; (I, k).

    It takes Σ|Ω_i|² steps, and never stores the matrix.
    """
    best = np.full((ratings.n_items, k), -1, dtype=np.int32)
    rows, columns = ratings.by_user, ratings.by_item
    means = baselines(ratings)
    row_values = rows.values - (means.mean + means.item[rows.items].astype(np.float64))
    owner = np.repeat(np.arange(ratings.n_items), columns.lengths)
    column_values = columns.values - (means.mean + means.item[owner].astype(np.float64))
    by_user = CenteredRows(_bounds(rows), rows.items, row_values)
    correlate(best, by_user, CenteredRows(_bounds(columns), columns.items, column_values), shrinkage, TASKS)
    return best


def minhash(ratings: Ratings, n_words: int, seed: int) -> NDArray[np.uint64]:
    """One-bit minHash of the raters of every item, uint64 (I, W), W = `n_words`."""
    packed = np.empty((ratings.n_items, n_words), dtype=np.uint64)
    columns = ratings.by_item
    hash_columns(packed, _bounds(columns), columns.items, ratings.user_keys, np.uint64(seed), TASKS)
    return packed


def no_lists(ratings: Ratings, k: int) -> NDArray[np.int32]:
    """Empty lists of all items, (I, k)."""
    return np.full((ratings.n_items, k), -1, dtype=np.int32)


def _bounds(rows: Rows) -> NDArray[np.int64]:
    return np.append(rows.starts, rows.starts[-1:] + rows.lengths[-1:])


@njit(cache=True, nogil=True)
def add_common(
    moments: NDArray[np.float64], own: np.float64, items: NDArray[np.int32], values: NDArray[np.float64]
) -> None:
    """Add one common rater: n, Σx, Σy, Σx², Σy², Σxy of the item (x = `own`) with each item of the rater's row."""
    for n in range(len(items)):
        sums, y = moments[items[n]], values[n]
        sums[0] += 1.0
        sums[1] += own
        sums[2] += y
        sums[3] += own * own
        sums[4] += y * y
        sums[5] += own * y


@njit(cache=True, nogil=True)
def pearson(moments: NDArray[np.float64], shrinkage: float) -> float:
    """Pearson correlation from the moments, times n/(n + shrinkage); 0 where a variance is 0."""
    n = moments[0]
    if n < 2.0:
        return 0.0
    covariance = n * moments[5] - moments[1] * moments[2]
    variances = (n * moments[3] - moments[1] ** 2) * (n * moments[4] - moments[2] ** 2)
    return covariance / np.sqrt(variances) * n / (n + shrinkage) if variances > 1e-9 else 0.0


@njit(cache=True, nogil=True)
def keep_largest(similarity: NDArray[np.float64], best: NDArray[np.int32]) -> None:
    """Rows of the largest positive similarities, descending, ties to the lower row; padded with −1."""
    for j in range(len(similarity)):
        position = len(best)
        while position > 0 and (best[position - 1] < 0 or similarity[best[position - 1]] < similarity[j]):
            position -= 1
        if similarity[j] > 0.0 and position < len(best):
            for k in range(len(best) - 1, position, -1):
                best[k] = best[k - 1]
            best[position] = j


@njit(cache=True, nogil=True, parallel=True)
def correlate(
    neighbors: NDArray[np.int32], by_user: CenteredRows, by_item: CenteredRows, shrinkage: float, n_tasks: int
) -> None:
    """Fill `neighbors` (I, K), padded with −1. It takes Σ|Ω_i|² steps, and 6·I doubles of memory a task.

    Args:
        by_user, by_item: all ratings, twice.
        n_tasks: task t owns items t, t + n_tasks, …
    """
    n_items = len(neighbors)
    for task in prange(n_tasks):
        moments = np.empty((n_items, 6))
        similarity = np.empty(n_items)
        for j in range(task, n_items, n_tasks):
            moments[:] = 0.0
            for n in range(by_item.bounds[j], by_item.bounds[j + 1]):
                user = by_item.others[n]
                row = slice(by_user.bounds[user], by_user.bounds[user + 1])
                add_common(moments, by_item.values[n], by_user.others[row], by_user.values[row])
            for other in range(n_items):
                similarity[other] = pearson(moments[other], shrinkage) if other != j else 0.0
            keep_largest(similarity, neighbors[j])


@njit(cache=True, nogil=True, parallel=True)
def hash_columns(
    signatures: NDArray[np.uint64],
    starts: NDArray[np.int64],
    users: NDArray[np.int32],
    user_keys: NDArray[np.uint64],
    seed: np.uint64,
    n_tasks: int,
) -> None:
    """One-bit minHash: bit h of an item is the lowest bit of its smallest user hash under hash function h.

    Two items agree in a bit with probability (1 + J)/2 (J: Jaccard similarity of their raters).
    """
    n_items, n_words = signatures.shape
    for task in prange(n_tasks):
        smallest = np.empty(64 * n_words, dtype=np.uint64)
        for j in range(task, n_items, n_tasks):
            smallest[:] = np.uint64(0xFFFFFFFFFFFFFFFF)
            for n in range(starts[j], starts[j + 1]):
                state = mix(user_keys[users[n]] ^ mix(seed))
                for h in range(len(smallest)):
                    smallest[h] = min(smallest[h], mix(state + np.uint64(h + 1) * GOLDEN))
            for w in range(n_words):
                word = np.uint64(0)
                for b in range(64):
                    word |= (smallest[64 * w + b] & np.uint64(1)) << np.uint64(b)
                signatures[j, w] = word
