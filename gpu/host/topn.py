"""Exact top-N on the host: scores of all items for a batch of users, then the best of each (see `gpu.topn`).

Scores. Item factors lie in panels of `PANEL` items, transposed, so that a panel's scores are sums of vectors over the
items: no horizontal sum, and every score is added up in the same order whether its user comes alone or in a batch.
Answers are therefore bit-identical for any batch. Four users share each read of a panel.

Neighbour terms ([004] eq. 1) go through inverse lists: each rated item adds its W and C to the items that have it as a
neighbour, O(|Ω_i|·K) a user instead of O(I·K); what a rated neighbour takes from the sum over C is subtracted from
the whole sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpu.host.arena import Int
from gpu.host.table import find
from gpu.scoring import LANE, PANEL, Catalogue, Requests

STRIP = 64  # scores that are looked at one by one only if any of them has a place in the list


@njit(cache=True, nogil=True)
def add_terms(request: Int, requests: Requests, catalogue: Catalogue, scores: NDArray[np.float32]) -> None:
    """Set the scores of one user to everything but the product of the factors."""
    n_items = len(catalogue.fixed)
    bias = requests.biases[request]
    for j in range(n_items):
        scores[j] = catalogue.fixed[j] + bias
    scores[n_items:] = 0
    if len(catalogue.owners) == 0:
        return
    explicit = np.zeros(n_items, dtype=np.float32)
    implicit = catalogue.implicit_sums.copy()
    n_rated = np.zeros(n_items, dtype=np.uint32)
    start = requests.starts[request]
    for n in range(start, start + requests.lengths[request]):
        x = requests.items[n]
        if x >= n_items:
            continue
        residual = requests.values[n] - (catalogue.baselines[x] + requests.baselines[request])
        weight = np.float32(1) if catalogue.is_implicit else np.float32(residual)
        first = np.uint64(catalogue.starts[x])
        for place in range(first, first + np.uint64(catalogue.lengths[x])):
            owner = np.uint32(catalogue.owners[place])  # unsigned: not tested for counting from the end, 10 of 28 µs
            n_rated[owner] += np.uint32(1)
            explicit[owner] += weight * catalogue.explicit_weights[place]
            implicit[owner] -= catalogue.implicit_weights[place]
    add_scaled(catalogue.n_slots, n_rated, explicit, implicit, scores)


@njit(cache=True, nogil=True, fastmath={"nnan", "contract"}, error_model="numpy")
def add_scaled(
    n_slots: NDArray[np.int32],
    n_rated: NDArray[np.uint32],
    explicit: NDArray[np.float32],
    implicit: NDArray[np.float32],
    scores: NDArray[np.float32],
) -> None:
    """Add |R|^-½ explicit + |N|^-½ implicit to the scores, in vectors: roots cost less than looking them up."""
    one = np.float32(1)
    for j in range(len(n_slots)):
        rated = np.float32(n_rated[j])
        unrated = np.float32(n_slots[j]) - rated
        scores[j] += explicit[j] / np.sqrt(max(rated, one)) + implicit[j] / np.sqrt(max(unrated, one))


@njit(cache=True, nogil=True, fastmath={"contract"})
def multiply_one(factors: NDArray[np.float32], panel: NDArray[np.float32], scores: NDArray[np.float32]) -> None:
    """Add factors · panel to the scores of one user."""
    for f in range(0, len(factors), LANE):
        u0, u1, u2, u3 = factors[f], factors[f + 1], factors[f + 2], factors[f + 3]
        v0, v1, v2, v3 = panel[f], panel[f + 1], panel[f + 2], panel[f + 3]
        for j in range(PANEL):
            scores[j] = scores[j] + u0 * v0[j] + u1 * v1[j] + u2 * v2[j] + u3 * v3[j]


@njit(cache=True, nogil=True, fastmath={"contract"})
def multiply_four(
    factors: NDArray[np.float32],
    panel: NDArray[np.float32],
    one: NDArray[np.float32],
    two: NDArray[np.float32],
    three: NDArray[np.float32],
    four: NDArray[np.float32],
) -> None:
    """Add factors · panel to the scores of `LANE` users, each in the order of `multiply_one`.

    The scores come as four arrays: as rows of one slice they would not be known to be contiguous.
    """
    for f in range(0, factors.shape[1], LANE):
        v0, v1, v2, v3 = panel[f], panel[f + 1], panel[f + 2], panel[f + 3]
        a0, a1, a2, a3 = factors[0, f], factors[0, f + 1], factors[0, f + 2], factors[0, f + 3]
        b0, b1, b2, b3 = factors[1, f], factors[1, f + 1], factors[1, f + 2], factors[1, f + 3]
        c0, c1, c2, c3 = factors[2, f], factors[2, f + 1], factors[2, f + 2], factors[2, f + 3]
        d0, d1, d2, d3 = factors[3, f], factors[3, f + 1], factors[3, f + 2], factors[3, f + 3]
        for j in range(PANEL):
            x0, x1, x2, x3 = v0[j], v1[j], v2[j], v3[j]
            one[j] = one[j] + a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
            two[j] = two[j] + b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
            three[j] = three[j] + c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
            four[j] = four[j] + d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3


@njit(cache=True, nogil=True)
def multiply(panel: Int, factors: NDArray[np.float32], catalogue: Catalogue, scores: NDArray[np.float32]) -> None:
    """Add one panel's products to the scores (B, P·PANEL) of all users."""
    n_users = len(factors)
    first, last = panel * PANEL, (panel + 1) * PANEL
    n_shared = n_users - n_users % LANE
    for b in range(0, n_shared, LANE):
        multiply_four(
            factors[b : b + LANE], catalogue.panels[panel], scores[b, first:last], scores[b + 1, first:last],
            scores[b + 2, first:last], scores[b + 3, first:last],
        )  # fmt: skip
    for b in range(n_shared, n_users):
        multiply_one(factors[b], catalogue.panels[panel], scores[b, first:last])


@njit(cache=True, nogil=True, inline="always")
def ranks_below(score: float, row: Int, other_score: float, other_row: Int) -> bool | np.bool_:
    """The order of every list: by score, ties to the lower row."""
    return score < other_score or (score == other_score and row > other_row)


@njit(cache=True, nogil=True)
def sift_down(scores: NDArray[np.float32], rows: NDArray[np.int32], length: Int) -> None:
    """Restore the heap (worst entry first) after its first entry was replaced."""
    parent = 0
    while 2 * parent + 1 < length:
        child = 2 * parent + 1
        if child + 1 < length and ranks_below(scores[child + 1], rows[child + 1], scores[child], rows[child]):
            child += 1
        if not ranks_below(scores[child], rows[child], scores[parent], rows[parent]):
            return
        scores[child], scores[parent] = scores[parent], scores[child]
        rows[child], rows[parent] = rows[parent], rows[child]
        parent = child


@njit(cache=True, nogil=True)
def sort_best_first(scores: NDArray[np.float32], rows: NDArray[np.int32]) -> None:
    """Turn a heap into a list, best first."""
    for length in range(len(rows) - 1, 0, -1):
        scores[0], scores[length] = scores[length], scores[0]
        rows[0], rows[length] = rows[length], rows[0]
        sift_down(scores, rows, length)


@njit(cache=True, nogil=True)
def n_above(scores: NDArray[np.float32], worst: np.float32) -> int:
    """How many scores are above `worst`: counted in vectors, which LLVM does not do for the largest of them."""
    n = 0
    for j in range(len(scores)):
        n += scores[j] > worst
    return n


@njit(cache=True, nogil=True)
def best_of_all(
    scores: NDArray[np.float32], hidden: NDArray[np.bool_], best: NDArray[np.float32], rows: NDArray[np.int32]
) -> None:
    """The `len(best)` best items that are not hidden, best first, padded with −inf and −1. −inf is never chosen."""
    best[:], rows[:] = -np.inf, -1
    worst = best[0]
    for first in range(0, len(scores), STRIP):
        last = min(first + STRIP, len(scores))
        if n_above(scores[first:last], worst) == 0:
            continue
        for j in range(first, last):
            if scores[j] > worst and not hidden[j]:
                best[0], rows[0] = scores[j], j
                sift_down(best, rows, len(best))
                worst = best[0]
    sort_best_first(best, rows)


@njit(cache=True, nogil=True)
def best_of_some(
    scores: NDArray[np.float32],
    hidden: NDArray[np.bool_],
    candidates: NDArray[np.int64],
    best: NDArray[np.float32],
    rows: NDArray[np.int32],
) -> None:
    """`best_of_all` among ascending `candidates`."""
    best[:], rows[:] = -np.inf, -1
    for j in candidates:
        if j < len(scores) and scores[j] > best[0] and not hidden[j]:
            best[0], rows[0] = scores[j], j
            sift_down(best, rows, len(best))
    sort_best_first(best, rows)


@njit(cache=True, nogil=True)
def select(
    request: Int, requests: Requests, scores: NDArray[np.float32], best: NDArray[np.float32], rows: NDArray[np.int32]
) -> None:
    """Fill the list of one user from its scores (I,), which are overwritten where an item must not appear."""
    n_items = len(scores)
    if len(best) == 0:
        return
    if not requests.include_seen:
        start = requests.starts[request]
        for n in range(start, start + requests.lengths[request]):
            if requests.items[n] < n_items:
                scores[requests.items[n]] = -np.inf
    for n in range(requests.exclude_starts[request], requests.exclude_starts[request + 1]):
        if requests.excluded[n] < n_items:
            scores[requests.excluded[n]] = -np.inf
    if requests.has_candidates[request]:
        some = requests.candidates[requests.candidate_starts[request] : requests.candidate_starts[request + 1]]
        best_of_some(scores, requests.hidden, some, best, rows)
    else:
        best_of_all(scores, requests.hidden, best, rows)


@njit(cache=True, nogil=True)
def rank(
    first: Int,
    last: Int,
    requests: Requests,
    catalogue: Catalogue,
    best: NDArray[np.float32],
    rows: NDArray[np.int32],
) -> None:
    """Fill lines `first` to `last` (excluded) of `best` and `rows` (B, m) on one thread."""
    scores = np.empty((last - first, catalogue.panels.shape[0] * PANEL), dtype=np.float32)
    n_items = len(catalogue.fixed)
    for b in range(first, last):
        add_terms(b, requests, catalogue, scores[b - first])
    for panel in range(catalogue.panels.shape[0]):
        multiply(panel, requests.factors[first:last], catalogue, scores)
    for b in range(first, last):
        select(b, requests, scores[b - first, :n_items], best[b], rows[b])


@njit(cache=True, nogil=True, parallel=True)
def rank_parallel(
    first: Int,
    last: Int,
    requests: Requests,
    catalogue: Catalogue,
    best: NDArray[np.float32],
    rows: NDArray[np.int32],
) -> None:
    """`rank` on all threads: users side by side, then panels, then users again."""
    scores = np.empty((last - first, catalogue.panels.shape[0] * PANEL), dtype=np.float32)
    n_items = len(catalogue.fixed)
    for b in prange(last - first):
        add_terms(first + b, requests, catalogue, scores[b])
    for panel in prange(catalogue.panels.shape[0]):
        multiply(panel, requests.factors[first:last], catalogue, scores)
    for b in prange(last - first):
        select(first + b, requests, scores[b, :n_items], best[first + b], rows[first + b])


@njit(cache=True, nogil=True)
def neighbour_terms(
    neighbours: NDArray[np.int32],
    explicit_weights: NDArray[np.float32],
    implicit_weights: NDArray[np.float32],
    items: NDArray[np.int32],
    residuals: NDArray[Any],
) -> float:
    """Neighbour terms of one item, given its slots (K,) and what a user has rated: `items` ascending, `residuals`."""
    explicit, implicit = 0.0, 0.0
    n_rated, n_unrated = 0, 0
    for k in range(len(neighbours)):
        if neighbours[k] < 0:
            continue
        place = find(items, 0, len(items), neighbours[k])
        if place < len(items) and items[place] == neighbours[k]:
            explicit += residuals[place] * explicit_weights[k]
            n_rated += 1
        else:
            implicit += implicit_weights[k]
            n_unrated += 1
    terms: float = explicit / np.sqrt(max(n_rated, 1)) + implicit / np.sqrt(max(n_unrated, 1))
    return terms
