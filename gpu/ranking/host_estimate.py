"""Scores of a model in host memory ([004] eq. 1): of given pairs."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import Int
from gpu.data.host_bounds import learned
from gpu.data.host_evidence import merit
from gpu.data.host_rating_table import find
from gpu.data.host_terms import ABSENT, UNRATED, clear, dot, fill, neighbor_terms
from gpu.data.ratings import Rows
from gpu.data.views import Arrays
from gpu.ranking.requests import Users

# Pairs are predicted in this many runs, whatever the number of threads.
_N_RUNS = 64

LINE = 16  # numbers of 4 bytes in a line of the cache
MARKS = 4096  # marks of rated items: a power of two; a row of 100 ratings then has one in forty places marked


@called_for(Use.TRAINING)
@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def predict(
    rows: Rows, users: NDArray[np.int32], items: NDArray[np.int32], arrays: Arrays, out: NDArray[np.float32]
) -> None:
    """Eq. 1 for each pair, into `out` (B,). Pairs of one user should stand together: their row is read once."""
    n_neighbors = arrays.neighbors.shape[1]
    for run in prange(_N_RUNS):
        first, last = len(users) * run // _N_RUNS, len(users) * (run + 1) // _N_RUNS
        line = np.full(len(arrays.item_bias) + 1, UNRATED)
        line[-1] = ABSENT
        near = np.empty((3, n_neighbors), np.float32)
        for x in range(first, last):
            user, item = users[x], items[x]
            if x == first or user != users[x - 1]:
                if x > first:
                    clear(line, rows, users[x - 1])
                fill(line, rows, user, arrays)
            terms, _, _ = neighbor_terms(item, line, arrays, near)
            terms += np.float32(weight_terms(item, user, rows, arrays))
            out[x] = arrays.mean + arrays.user_bias[user] + arrays.item_bias[item] + terms + dot(user, item, arrays)


@called_for(Use.ANSWERS)
@njit(nogil=True, cache=True)
def score_pairs(
    users: Users,
    rows: Rows,
    items: Annotated[NDArray[np.int64], 2],
    arrays: Arrays,
    out: Annotated[NDArray[np.float64], 2],
) -> int:
    """Eq. 1 for `items` (B, n) of each of B users, into `out` (B, n); NaN where an item is below 0.

    Each pair is summed up alone, in float64 and in one order, so that its bits do not depend on the others.

    Returns:
        what `load` has counted, so that no compiler leaves the loads out.
    """
    factors, biases, baselines = users
    may_be_rated, loaded = np.empty(MARKS, dtype=np.bool_), 0
    for b in range(items.shape[0]):
        loaded += load(items[b], arrays)
        mark(rows, b, may_be_rated)
        for n in range(items.shape[1]):
            item = items[b, n]
            if item < 0:
                out[b, n] = np.nan
                continue
            score = float(arrays.mean) + biases[b] + arrays.item_bias[item]
            score += near_terms(item, b, baselines[b], rows, may_be_rated, arrays)
            out[b, n] = score + weight_terms(item, b, rows, arrays)
        add_products(factors[b], items[b], arrays.item_factors, out[b])
    return loaded


@njit(nogil=True, cache=True)
def load(items: NDArray[np.int64], arrays: Arrays) -> int:
    """Read each cache line of the rows of `items` (n,); returns how many numbers read were above 0.

    Few are in the cache. Here all loads overlap, while the sums of eq. 1 wait for each.
    """
    total, (_, n_neighbors), (_, n_factors) = 0, arrays.neighbors.shape, arrays.item_factors.shape
    for n in range(len(items) if len(arrays.item_factors) else 0):
        item = max(items[n], 0)
        total += arrays.item_bias[item] > 0
        for k in range(0, n_neighbors, LINE):
            total += (arrays.neighbors[item, k] > 0) + (arrays.implicit_weights[item, k] > 0)
        for f in range(0, n_factors, LINE):
            total += arrays.item_factors[item, f] > 0
    return total


@njit(nogil=True, cache=True)
def add_products(
    user: NDArray[np.float32], items: NDArray[np.int64], item_factors: NDArray[np.float32], out: NDArray[np.float64]
) -> None:
    """Add the products of factors to each score in `out` (n,), one factor after the other.

    An addition waits for the one before it, so four items take turns.
    """
    for n in range(0, len(items) if len(item_factors) else 0, 4):
        # Items below 0, whose scores are NaN, and what is beyond the last item stand for any row.
        m1, m2, m3 = min(n + 1, len(items) - 1), min(n + 2, len(items) - 1), min(n + 3, len(items) - 1)
        i0, i1, i2, i3 = max(items[n], 0), max(items[m1], 0), max(items[m2], 0), max(items[m3], 0)
        s0, s1, s2, s3 = out[n], out[m1], out[m2], out[m3]
        for f in range(len(user)):
            factor = float(user[f])
            s0 += factor * item_factors[i0, f]
            s1 += factor * item_factors[i1, f]
            s2 += factor * item_factors[i2, f]
            s3 += factor * item_factors[i3, f]
        out[n], out[m1], out[m2], out[m3] = s0, s1, s2, s3


@njit(nogil=True, cache=True)
def mark(rows: Rows, b: Int, may_be_rated: NDArray[np.bool_]) -> None:
    """Mark the items of row `b` of `rows` by their last bits: without a mark, an item is not in the row."""
    may_be_rated[:] = rows.lengths[b] > MARKS
    if rows.lengths[b] <= MARKS:
        for position in range(rows.starts[b], rows.starts[b] + rows.lengths[b]):
            may_be_rated[rows.items[position] & (MARKS - 1)] = True


@njit(nogil=True, cache=True, inline="always")
def near_terms(
    item: Int, b: Int, baseline: np.float32, rows: Rows, may_be_rated: NDArray[np.bool_], arrays: Arrays
) -> float:
    """Both neighbor sums of eq. 1 of `item` for row `b` of `rows`, looked up in its items, which ascend.

    Few neighbors are rated, so most searches are saved by `may_be_rated` (see `mark`).
    """
    start, length = rows.starts[b], rows.lengths[b]
    explicit, implicit, n_rated, n_unrated = 0.0, 0.0, 0, 0
    for k in range(arrays.neighbors.shape[1]):
        other = np.int64(arrays.neighbors[item, k])
        if other >= len(arrays.item_bias):
            continue
        position = start + length
        if may_be_rated[other & (MARKS - 1)]:
            position = find(rows.items, start, length, other)
        if position < start + length and rows.items[position] == other:
            residual = (
                float(learned(rows.values[position], arrays)) - arrays.mean - arrays.item_baseline[other] - baseline
            )
            if arrays.is_implicit:
                residual = 1.0 if merit(rows.values[position], arrays.lift) >= arrays.middle else -1.0
            explicit += residual * arrays.explicit_weights[item, k]
            n_rated += 1
        else:
            implicit += arrays.implicit_weights[item, k]
            n_unrated += 1
    return float(explicit / np.sqrt(max(n_rated, 1)) + implicit / np.sqrt(max(n_unrated, 1)))


@njit(nogil=True, cache=True, inline="always")
def weight_terms(item: Int, b: Int, rows: Rows, arrays: Arrays) -> float:
    """What the ratings in row `b` of `rows` add to the score of `item` through item weights; 0 where there are none."""
    slots, total = arrays.item_slots, 0.0
    for position in range(rows.starts[b], rows.starts[b] + rows.lengths[b] if arrays.listed.shape[1] else 0):
        for place in range(arrays.listed.shape[1] if rows.items[position] < len(slots) else 0):
            if arrays.listed[rows.items[position], place] == item:
                total += float(rows.values[position]) * arrays.listed_weights[rows.items[position], place]
    if len(arrays.item_weights) == 0 or item >= len(slots) or slots[item] < 0:
        return total
    for position in range(rows.starts[b], rows.starts[b] + rows.lengths[b]):
        if rows.items[position] < len(slots) and slots[rows.items[position]] >= 0:
            total += float(rows.values[position]) * arrays.item_weights[slots[rows.items[position]], slots[item]]
    return total
