"""Exact top-N on the host: scores one panel of items at a time for all users, and updates their lists.

Scores. Item factors lie in panels of `PANEL` items, transposed, so that a panel's scores are sums of vectors over the
items: no horizontal sum, and every score is added up in the same order whether its user comes alone or in a batch.
Answers are therefore bit-identical for any batch. Four users share each read of a panel, all users its stay in the
cache; no more than four panels of scores exist at a time.

Neighbor terms ([004] eq. 1) go through inverse lists (`gpu.host.neighbor_blocks`): what most items begin with is the
same for all users. Item weights give every item of every user a sum of its own before the panels are read
(`gpu.host.online.weighted`).

Threads share the items, each with lists of its own, which are joined at the end. The order of every list is total, so
that this leaves no trace.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpu.host.arena import Int
from gpu.host.item_index import LANE, PANEL, RankedItems, Tables
from gpu.host.lists import collect, collect_some, join
from gpu.host.neighbor_blocks import BLOCK, Touched, touched
from gpu.host.online.rating_table import find
from gpu.host.online.weighted import weighted
from gpu.ranking.requests import RankingRequests

PARALLEL_FROM = 2**28  # multiplications, ten milliseconds: on a busy machine, waking threads can cost as much
READ_COST = 4  # multiplications that take as long as reading a factor from memory
SEEN, EXCLUDED, CANDIDATES, TOUCHED = range(4)  # lists of a user that ascend by item, and are read as panels go by


def rank(ranked_items: RankedItems, requests: RankingRequests, n: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The `n` best items of every user, best first; ties to the lower row.

    Returns:
        int32 (B, n) rows and float32 (B, n) scores; padded with −1 and −inf.
    """
    tables = ranked_items.tables
    n_users = len(requests.biases)
    requests = requests._replace(factors=_padded(requests.factors, tables.panels.shape[1]))
    cost = (n_users + READ_COST) * tables.panels.size + int(requests.lengths.sum()) * len(tables.item_weights)
    n_parts = max(min(numba.get_num_threads(), len(tables.panels)), 1) if cost >= PARALLEL_FROM else 1
    best = np.full((n_parts, n_users, n), -np.inf, dtype=np.float32)
    rows = np.full(best.shape, -1, dtype=np.int32)
    if n and n_users:
        parts = np.arange(n_parts + 1) * len(tables.panels) // n_parts
        fill(parts, requests, tables, best, rows)
    return rows[0], best[0]


def _padded(factors: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    if factors.shape[1] == width:
        return np.ascontiguousarray(factors)
    return np.pad(factors, ((0, 0), (0, width - factors.shape[1])))


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
def skip_to(first: Int, requests: RankingRequests, near: Touched, places: NDArray[np.int64]) -> None:
    """Set the places (B, 4) of all lists to their first entry of item `first` or a later one."""
    for b in range(len(places)):
        places[b, SEEN] = find(requests.items, requests.starts[b], requests.lengths[b], first)
        start, end = requests.exclude_starts[b], requests.exclude_starts[b + 1]
        places[b, EXCLUDED] = find(requests.excluded, start, end - start, first)
        start, end = requests.candidate_starts[b], requests.candidate_starts[b + 1]
        places[b, CANDIDATES] = find(requests.candidates, start, end - start, first)
        places[b, TOUCHED] = find(near.blocks, near.starts[b], near.lengths[b], first // BLOCK)


@njit(cache=True, nogil=True)
def mask(items: NDArray[Any], position: Int, end: Any, first: Int, scores: NDArray[np.float32]) -> Int:
    """Set the scores of a user's `items` in the panel to −inf; returns the place of the next panel's first."""
    while position < end and items[position] < first + PANEL:
        if items[position] >= first:  # else the panel was left out
            scores[items[position] - first] = -np.inf
        position += 1
    return position


@njit(cache=True, nogil=True)
def begin(
    request: Int,
    first: Int,
    requests: RankingRequests,
    tables: Tables,
    near: Touched,
    places: NDArray[np.int64],
    scores: NDArray[np.float32],
) -> None:
    """Set the scores of a panel that begins at item `first` to everything but the product; masked ones to −inf."""
    bias = requests.biases[request]
    plain = tables.plain[first : first + PANEL]
    for j in range(PANEL):
        scores[j] = plain[j] + bias
    position, last = places[TOUCHED], near.starts[request] + near.lengths[request]
    while position < last and near.blocks[position] * BLOCK < first + PANEL:
        start = near.blocks[position] * BLOCK - first
        if start >= 0:  # else the panel was left out
            for j in range(BLOCK):
                scores[start + j] = near.scores[position, j] + bias
        position += 1
    places[TOUCHED] = position
    if not requests.include_seen:
        last = requests.starts[request] + requests.lengths[request]
        places[SEEN] = mask(requests.items, places[SEEN], last, first, scores)
    last = requests.exclude_starts[request + 1]
    places[EXCLUDED] = mask(requests.excluded, places[EXCLUDED], last, first, scores)


@njit(cache=True, nogil=True)
def n_candidates(request: Int, first: Int, requests: RankingRequests, places: NDArray[np.int64]) -> int:
    """Candidates of a user in the panel that begins at item `first`."""
    position, end = places[CANDIDATES], requests.candidate_starts[request + 1]
    while position < end and requests.candidates[position] < first + PANEL:
        position += 1
    n: int = position - places[CANDIDATES]
    return n


@njit(cache=True, nogil=True)
def scan_one(
    request: Int,
    panel: Int,
    requests: RankingRequests,
    tables: Tables,
    near: Touched,
    places: NDArray[np.int64],
    scores: NDArray[np.float32],
    best: NDArray[np.float32],
    rows: NDArray[np.int32],
) -> None:
    """Take a panel into the list of one user; where there are candidates, only panels that hold any are scored."""
    first, n = panel * PANEL, 0
    if requests.has_candidates[request]:
        n = n_candidates(request, first, requests, places)
        if n == 0:
            return
    begin(request, first, requests, tables, near, places, scores)
    multiply_one(requests.factors[request], tables.panels[panel], scores)
    if requests.has_candidates[request]:
        position = places[CANDIDATES]
        collect_some(scores, first, requests.candidates[position : position + n], best, rows)
        places[CANDIDATES] = position + n
    else:
        collect(scores, first, best, rows)


@njit(cache=True, nogil=True)
def scan(
    first_panel: Int,
    last_panel: Int,
    requests: RankingRequests,
    tables: Tables,
    near: Touched,
    best: NDArray[np.float32],
    rows: NDArray[np.int32],
) -> None:
    """Take the panels `first_panel` to `last_panel` (excluded) into the lists (B, m) of all users."""
    n_users = len(best)
    scores = np.empty((LANE, PANEL), dtype=np.float32)
    places = np.empty((n_users, 4), dtype=np.int64)
    skip_to(first_panel * PANEL, requests, near, places)
    for panel in range(first_panel, last_panel):
        for b in range(0, n_users, LANE):
            last = min(b + LANE, n_users)
            if last - b < LANE or requests.has_candidates[b:last].any():
                for c in range(b, last):
                    scan_one(c, panel, requests, tables, near, places[c], scores[0], best[c], rows[c])
                continue
            for c in range(LANE):
                begin(b + c, panel * PANEL, requests, tables, near, places[b + c], scores[c])
            panel_factors = tables.panels[panel]
            multiply_four(requests.factors[b:last], panel_factors, scores[0], scores[1], scores[2], scores[3])
            for c in range(LANE):
                collect(scores[c], panel * PANEL, best[b + c], rows[b + c])


@njit(cache=True, nogil=True, parallel=True)
def scan_parallel(
    parts: NDArray[np.int64],
    requests: RankingRequests,
    tables: Tables,
    near: Touched,
    best: NDArray[np.float32],
    rows: NDArray[np.int32],
) -> None:
    """Fill the lists (P, B, m) from the panels `parts[p]` to `parts[p + 1]` on all threads, and join them."""
    for p in prange(len(parts) - 1):
        scan(parts[p], parts[p + 1], requests, tables, near, best[p], rows[p])
    for b in prange(best.shape[1]):
        join(best[:, b], rows[:, b])


@njit(cache=True, nogil=True)
def fill(
    parts: NDArray[np.int64],
    requests: RankingRequests,
    tables: Tables,
    best: NDArray[np.float32],
    rows: NDArray[np.int32],
) -> None:
    """Fill the first of `best` and `rows` (P, B, m), all −inf and −1; a thread for each part of the panels."""
    is_parallel = len(best) > 1
    if len(tables.item_weights):
        near = weighted(requests, tables, is_parallel)
    else:
        near = touched(requests, tables, is_parallel)
    if is_parallel:
        scan_parallel(parts, requests, tables, near, best, rows)
    else:
        scan(parts[0], parts[1], requests, tables, near, best[0], rows[0])
        for b in range(best.shape[1]):
            join(best[:, b], rows[:, b])
