"""Scores by item weights on the host, for each user separately (`gpu.ranking.weighted`).

A user's n ratings read n rows of the weights, 4 n T bytes of memory: 8 MB for 100 ratings and 20,000 items. The sums
run over chunks of items that stay in the cache, in the order of the ratings, so they do not depend on the batch. Of
models with lists they read n lists, 8 n L bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.base.host.forms import serial_and_parallel
from gpu.data.host_arena import Int
from gpu.data.host_evidence import merit
from gpu.data.ratings import Rows
from gpu.ranking.host_item_index import Tables
from gpu.ranking.host_lists import ROWS_AT_ONCE
from gpu.ranking.host_neighbor_blocks import BLOCK, Touched
from gpu.ranking.requests import RankingRequests

CHUNK = 2048  # sums computed at a time: 8 KiB of a row of weights


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_scaled(x: np.float32, row: NDArray[np.float32], sums: NDArray[np.float32]) -> None:
    """Add x · row to the sums."""
    for t in range(len(sums)):
        sums[t] += x * row[t]


@njit(cache=True, nogil=True)
def add_ratings(request: Int, requests: RankingRequests, tables: Tables, sums: NDArray[np.float32]) -> None:
    """Set `sums` (T,) to Σ x · weights over the ratings of a request, whose values are x."""
    sums[:] = 0
    start, slots, weights = requests.starts[request], tables.item_slots, tables.item_weights
    for first in range(0, len(sums), CHUNK):
        part = sums[first : first + CHUNK]
        for n in range(start, start + requests.lengths[request]):
            item, x = requests.items[n], requests.values[n]
            if item < len(slots) and slots[item] >= 0 and x != 0:
                add_scaled(x, weights[slots[item], first : first + CHUNK], part)


@njit(cache=True, nogil=True)
def add_lists(request: Int, requests: RankingRequests, tables: Tables, scores: NDArray[np.float32]) -> None:
    """Add x times the weights of its list for each rating of a request, whose values are x, to `scores` (I,)."""
    listed, weights, start = tables.listed, tables.listed_weights, requests.starts[request]
    for n in range(start, start + requests.lengths[request]):
        item, x = requests.items[n], requests.values[n]
        if item < len(listed) and x != 0:
            for place in range(listed.shape[1]):
                if listed[item, place] >= 0:
                    scores[listed[item, place]] += x * weights[item, place]


def _score(requests: RankingRequests, tables: Tables, scores: NDArray[np.float32]) -> None:
    """Set `scores` (B, I) to the fixed part, which masks hidden items, plus the sums of item weights."""
    slots = tables.item_slots
    for b in prange(len(scores)):
        if tables.listed.shape[1]:
            scores[b] = 0  # sums alone: beside a mean they would lose digits
            add_lists(b, requests, tables, scores[b])
            scores[b] += tables.fixed
            continue
        sums = np.empty(len(tables.item_weights), dtype=np.float32)
        add_ratings(b, requests, tables, sums)
        scores[b] = tables.fixed
        for j in range(len(slots)):
            if slots[j] >= 0:
                scores[b, j] += sums[slots[j]]


score, score_parallel = serial_and_parallel(_score)


@njit(cache=True, nogil=True)
def weighted(requests: RankingRequests, tables: Tables, is_parallel: bool | np.bool_) -> Touched:
    """Start scores of all requests, as blocks that cover all items; takes 4 I bytes a user."""
    n_users, n_items = len(requests.starts), len(tables.fixed)
    n_blocks = n_items // BLOCK
    scores = np.empty((n_users, n_items), dtype=np.float32)
    if is_parallel:
        score_parallel(requests, tables, scores)
    else:
        score(requests, tables, scores)
    starts, blocks = np.arange(n_users) * n_blocks, np.empty(n_users * n_blocks, dtype=np.int32)
    for position in range(len(blocks)):
        blocks[position] = position % n_blocks
    return Touched(starts, np.full(n_users, n_blocks), blocks, scores.reshape(n_users * n_blocks, BLOCK))


@called_for(Use.ITEM_WEIGHTS)
@njit(cache=True, nogil=True, parallel=True)
def cosines_of_rows(
    rows: Rows,
    line: NDArray[np.float32],
    length: np.float32,
    middle: np.float32,
    lift: np.float32,
    disliked: np.float32,
    found: NDArray[np.float32],
) -> None:
    """Write the cosine of `line` (I,) and each row of ratings to `found` (U,); −inf for empty rows.

    A like counts as 1, a dislike as `disliked`; `middle` and `lift` as in `gpu.data.views.Arrays`.

    Args:
        length: Euclidean length of `line`.
    """
    for part in prange((len(found) + ROWS_AT_ONCE - 1) // ROWS_AT_ONCE):
        for user in range(part * ROWS_AT_ONCE, min((part + 1) * ROWS_AT_ONCE, len(found))):
            product, squares = np.float32(0), np.float32(0)
            for position in range(rows.starts[user], rows.starts[user] + rows.lengths[user]):
                x = np.float32(1) if merit(rows.values[position], lift) >= middle else disliked
                product += x * line[rows.items[position]]
                squares += x * x
            found[user] = product / (length * np.sqrt(squares)) if squares > 0 else np.float32(-np.inf)
