"""Exact top-N on the host: scores one panel of items at a time for all users, and updates their lists.

Scores. A panel holds the factors of `PANEL` items, transposed, so that its scores are sums of vectors over the items,
without horizontal sums. Every score is summed in the same order, alone or in a batch. So a user's answer has the same
bits in any batch. Four users share each read of a panel from the cache, and all users share each read from memory. At
most four panels of scores exist at a time.

Neighbor terms ([004] eq. 1) come from inverse lists (`gpu.ranking.host_neighbor_blocks`). Most items have none of the
user's ratings among their neighbors, and start with a score that is the same for all users. Models with item weights
compute a start score for every item and user before the panels are read (`gpu.ranking.host_weighted`).

Filters. A panel without eligible items is skipped. Four users share a read of a panel if it is open to all of them, as
where they have the same filter.

Threads share the items. Each fills lists of its own, which are merged at the end. The order of a list is total, so the
result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.base.host.forms import serial_and_parallel
from gpu.data.host_arena import Int
from gpu.data.host_rating_table import find
from gpu.ranking.eligible import Eligible
from gpu.ranking.host_filters import Filters, count_open, filters_of, is_open, mask_others
from gpu.ranking.host_item_index import LANE, PANEL, RankedItems, Tables
from gpu.ranking.host_lists import collect, collect_some, join
from gpu.ranking.host_neighbor_blocks import BLOCK, Touched, touched_blocks
from gpu.ranking.host_weighted import weighted
from gpu.ranking.requests import RankingRequests

PARALLEL_FROM = 2**28  # multiplications, about ten milliseconds; on a busy machine, waking threads can take as long
READ_COST = 4  # multiplications that take as long as reading a factor from memory
SEEN, EXCLUDED, CANDIDATES, TOUCHED = range(4)  # lists of a user, ascending by item; the scan reads them panel by panel


class ScoreInputs(NamedTuple):
    """Inputs of the scores: requests of B users, their filters, the model's items, and blocks of neighbor terms."""

    requests: RankingRequests
    filters: Filters
    tables: Tables
    touched: Touched


def rank(
    ranked_items: RankedItems, requests: RankingRequests, eligible: Sequence[Eligible | None], n: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The `n` best items of every user, best first; ties to the lower row.

    Args:
        eligible: the items that may appear in the list of each user without candidates; None: all.

    Returns:
        int32 (B, n) rows and float32 (B, n) scores; padded with −1 and −inf.
    """
    tables = ranked_items.tables
    n_users = len(requests.biases)
    factors, width = requests.factors, tables.panels.shape[1]
    if factors.shape[1] < width:
        factors = np.pad(factors, ((0, 0), (0, width - factors.shape[1])))
    if factors is not requests.factors or not factors.flags.c_contiguous:
        requests = requests._replace(factors=np.ascontiguousarray(factors))
    cost = (n_users + READ_COST) * tables.panels.size
    cost += int(requests.lengths.sum()) * (len(tables.item_weights) + tables.listed.shape[1])
    n_parts = max(min(numba.get_num_threads(), len(tables.panels)), 1) if cost >= PARALLEL_FROM else 1
    best = np.full((n_parts, n_users, n), -np.inf, dtype=np.float32)
    rows = np.full(best.shape, -1, dtype=np.int32)
    if n and n_users:
        parts = np.arange(n_parts + 1) * len(tables.panels) // n_parts
        fill(parts, requests, filters_of(eligible, len(tables.panels)), tables, best, rows)
    return rows[0], best[0]


@njit(cache=True, nogil=True, fastmath={"contract"})
def multiply_one(factors: NDArray[np.float32], panel: NDArray[np.float32], scores: NDArray[np.float32]) -> None:
    """Add factors (G,) · panel (G, PANEL) to the scores (PANEL,) of one user."""
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
    """Add factors (LANE, G) · panel (G, PANEL) to the scores of `LANE` users, each in the order of `multiply_one`.

    The scores are four arrays, because Numba does not know that rows of a slice are contiguous.
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
def skip_to(first: Int, inputs: ScoreInputs, positions: NDArray[np.int64]) -> None:
    """Set the positions (B, 4) in all lists to the first entry of item `first` or a later one."""
    requests, touched = inputs.requests, inputs.touched
    for b in range(len(positions)):
        positions[b, SEEN] = find(requests.items, requests.starts[b], requests.lengths[b], first)
        start, end = requests.exclude_starts[b], requests.exclude_starts[b + 1]
        positions[b, EXCLUDED] = find(requests.excluded, start, end - start, first)
        start, end = requests.candidate_starts[b], requests.candidate_starts[b + 1]
        positions[b, CANDIDATES] = find(requests.candidates, start, end - start, first)
        positions[b, TOUCHED] = find(touched.blocks, touched.starts[b], touched.lengths[b], first // BLOCK)


@njit(cache=True, nogil=True)
def mask(items: NDArray[Any], position: Int, end: Any, first: Int, scores: NDArray[np.float32]) -> Int:
    """Set the scores of those of `items` that are in the panel from item `first` on to −inf.

    Returns:
        The position of the first item of a later panel.
    """
    while position < end and items[position] < first + PANEL:
        if items[position] >= first:  # smaller ones belong to panels that the scan has skipped
            scores[items[position] - first] = -np.inf
        position += 1
    return position


@njit(cache=True, nogil=True)
def begin(
    request: Int, first: Int, inputs: ScoreInputs, positions: NDArray[np.int64], scores: NDArray[np.float32]
) -> None:
    """Set the scores of the panel from item `first` on to all terms but the product of factors; masked ones to −inf."""
    requests, touched = inputs.requests, inputs.touched
    bias = requests.biases[request]
    plain = inputs.tables.plain[first : first + PANEL]
    for j in range(PANEL):
        scores[j] = plain[j] + bias
    position, last = positions[TOUCHED], touched.starts[request] + touched.lengths[request]
    while position < last and touched.blocks[position] * BLOCK < first + PANEL:
        start = touched.blocks[position] * BLOCK - first
        if start >= 0:  # smaller ones belong to panels that the scan has skipped
            for j in range(BLOCK):
                scores[start + j] = touched.scores[position, j] + bias
        position += 1
    positions[TOUCHED] = position
    if not requests.include_seen:
        last = requests.starts[request] + requests.lengths[request]
        positions[SEEN] = mask(requests.items, positions[SEEN], last, first, scores)
    last = requests.exclude_starts[request + 1]
    positions[EXCLUDED] = mask(requests.excluded, positions[EXCLUDED], last, first, scores)
    mask_others(request, first // PANEL, inputs.filters, scores)


@njit(cache=True, nogil=True)
def n_candidates(request: Int, first: Int, requests: RankingRequests, positions: NDArray[np.int64]) -> int:
    """Number of a user's candidates in the panel from item `first` on."""
    position, end = positions[CANDIDATES], requests.candidate_starts[request + 1]
    while position < end and requests.candidates[position] < first + PANEL:
        position += 1
    n: int = position - positions[CANDIDATES]
    return n


@njit(cache=True, nogil=True)
def scan_one(
    request: Int,
    panel: Int,
    inputs: ScoreInputs,
    positions: NDArray[np.int64],
    scores: NDArray[np.float32],
    best: NDArray[np.float32],
    rows: NDArray[np.int32],
) -> None:
    """Insert a panel's scores into one user's list. Skip panels that have none of the items that may be in it."""
    requests, first, n = inputs.requests, panel * PANEL, 0
    if not is_open(request, panel, inputs.filters):
        return
    if requests.has_candidates[request]:
        n = n_candidates(request, first, requests, positions)
        if n == 0:
            return
    begin(request, first, inputs, positions, scores)
    multiply_one(requests.factors[request], inputs.tables.panels[panel], scores)
    if requests.has_candidates[request]:
        position = positions[CANDIDATES]
        collect_some(scores, first, requests.candidates[position : position + n], best, rows)
        positions[CANDIDATES] = position + n
    else:
        collect(scores, first, best, rows)


def _scan(
    parts: NDArray[np.int64],
    requests: RankingRequests,
    filters: Filters,
    tables: Tables,
    touched: Touched,
    best: NDArray[np.float32],
    rows: NDArray[np.int32],
) -> None:
    """Fill the lists (P, B, m) from the panels `parts[p]` to `parts[p + 1]`, and merge them into the first."""
    n_users, factors = best.shape[1], requests.factors
    for p in prange(len(parts) - 1):
        inputs = ScoreInputs(requests, filters, tables, touched)
        scores, positions = np.empty((LANE, PANEL), dtype=np.float32), np.empty((n_users, 4), dtype=np.int64)
        skip_to(parts[p] * PANEL, inputs, positions)
        for panel in range(parts[p], parts[p + 1]):
            for b in range(0, n_users, LANE):
                last = min(b + LANE, n_users)
                n_open = count_open(b, last, panel, filters)
                if n_open == 0:
                    continue
                if n_open < LANE or requests.has_candidates[b:last].any():
                    for c in range(b, last):
                        scan_one(c, panel, inputs, positions[c], scores[0], best[p, c], rows[p, c])
                    continue
                for c in range(LANE):
                    begin(b + c, panel * PANEL, inputs, positions[b + c], scores[c])
                multiply_four(factors[b:last], tables.panels[panel], scores[0], scores[1], scores[2], scores[3])
                for c in range(LANE):
                    collect(scores[c], panel * PANEL, best[p, b + c], rows[p, b + c])
    for b in prange(n_users):
        join(best[:, b], rows[:, b])


scan, scan_parallel = serial_and_parallel(_scan)


@called_for(Use.RANKING)
@njit(cache=True, nogil=True)
def fill(
    parts: NDArray[np.int64],
    requests: RankingRequests,
    filters: Filters,
    tables: Tables,
    best: Annotated[NDArray[np.float32], 3],
    rows: Annotated[NDArray[np.int32], 3],
) -> None:
    """Write the lists of all users to `best[0]` and `rows[0]`; `best` and `rows` (P, B, m) start as −inf and −1.

    Args:
        parts: int64 (P + 1,), bounds of the panels of each part; each part has a thread.
    """
    is_parallel = len(best) > 1
    if len(tables.item_weights) or tables.listed.shape[1]:
        touched = weighted(requests, tables, is_parallel)
    else:
        touched = touched_blocks(requests, tables, is_parallel)
    if is_parallel:
        scan_parallel(parts, requests, filters, tables, touched, best, rows)
    else:
        scan(parts, requests, filters, tables, touched, best, rows)
