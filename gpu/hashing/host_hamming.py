"""Neighbors by agreement of signatures on the host: ranking, random neighbors for empty slots, and outdated lists.

A rank key is agreement · 2³² + (2³² − 1 − row). The larger key belongs to the better neighbor; ties go to the lower
row.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.base.host.forms import serial_and_parallel
from gpu.data.host_random import GOLDEN, mix

ROW_MASK = np.int64(0xFFFFFFFF)
QUERY_BLOCK = 16  # queries that share a pass over the candidates
SERIAL_PAIRS = 1_000_000  # pairs; one thread ranks them in about 10 ms


def _count_bits(typing_context: Any, word: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), build


# Number of set bits of a uint64; LLVM vectorizes loops over it.
popcount: Any = intrinsic(_count_bits)


@njit(cache=True, nogil=True)
def agreement(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> np.int64:
    """Number of equal bits of two signatures."""
    differing = np.uint64(0)
    for w in range(len(one)):
        differing += popcount(one[w] ^ other[w])
    return np.int64(64 * len(one)) - np.int64(differing)


@njit(cache=True, nogil=True)
def rank_key(one: NDArray[np.uint64], other: NDArray[np.uint64], row: np.int64) -> np.int64:
    """Rank key of item `row` with signature `other` as a neighbor of `one`; always ≥ 0."""
    return (agreement(one, other) << np.int64(32)) | (ROW_MASK - row)


@njit(cache=True, nogil=True)
def insert(best: NDArray[np.int64], key: np.int64) -> None:
    """Insert `key` into the descending list `best` (K,) and drop the last key; does nothing if `best` contains it."""
    position = len(best)
    while position > 0 and best[position - 1] < key:
        position -= 1
    if position == len(best) or (position > 0 and best[position - 1] == key):
        return
    for k in range(len(best) - 1, position, -1):
        best[k] = best[k - 1]
    best[position] = key


def _rank_blocks(
    best: Annotated[NDArray[np.int64], 2],
    signatures: Annotated[NDArray[np.uint64], 2],
    candidates: NDArray[np.int64],
    queries: NDArray[np.int64],
) -> None:
    """Exact ranking: every candidate against every query; the queries of a block share each pass over the candidates.

    Args:
        best: (B, K) rank keys, descending, padded with −1; filled in place.
        candidates, queries: item rows, the queries (B,).
    """
    for block in prange((len(queries) + QUERY_BLOCK - 1) // QUERY_BLOCK):
        part = slice(block * QUERY_BLOCK, (block + 1) * QUERY_BLOCK)
        owners, lists = queries[part], best[part]
        for j in candidates:
            for q in range(len(owners)):
                if owners[q] != j:
                    key = rank_key(signatures[owners[q]], signatures[j], j)
                    if key > lists[q, -1]:
                        insert(lists[q], key)


rank_blocks, rank_blocks_parallel = serial_and_parallel(_rank_blocks)
called_for(Use.HASHED, Use.TRAINING)(rank_blocks)


def rank_all(
    best: NDArray[np.int64], signatures: NDArray[np.uint64], candidates: NDArray[np.int64], queries: NDArray[np.int64]
) -> None:
    """`rank_blocks`, on all threads if these can share the queries and the work pays for waking them."""
    is_long = len(queries) > QUERY_BLOCK and len(queries) * len(candidates) > SERIAL_PAIRS
    rank = rank_blocks_parallel if is_long else rank_blocks
    rank(best, signatures, candidates, queries)


def coarse_words(signatures: NDArray[np.uint64], candidates: NDArray[np.int64], table: int) -> NDArray[np.uint64]:
    """64 bits of each candidate's signature, uint64 (C,): the four slices of 16 bits from slice `table` on, cyclic."""
    slices = signatures.view(np.uint16)
    four = (table + np.arange(4)) % slices.shape[1]
    words: NDArray[np.uint64] = slices[np.ix_(candidates, four)].view(np.uint64).ravel()
    return words


@njit(cache=True, nogil=True, parallel=True)
def rank_buckets(
    best: NDArray[np.int64],
    signatures: NDArray[np.uint64],
    order: NDArray[np.int64],
    keys: NDArray[np.uint64],
    n_key_bits: np.int64,
    window: np.int64,
) -> None:
    """Rank the other items of each item's bucket as its neighbors, for one table of coarse keys.

    Args:
        best: (I, K) rank keys as in `rank_blocks`, improved in place from table to table.
        order: candidate rows, sorted by coarse word.
        keys: the sorted coarse words. A bucket is a run of words with equal leading `n_key_bits`.
        window: largest number of items to compare before and after an item: those whose words share the longest
            prefixes. So a huge bucket, such as items that only one user has rated, costs no more than others.
    """
    shift = np.uint64(64 - n_key_bits)
    for position in prange(len(order)):
        item = order[position]
        coarse = keys[position] >> shift
        for step in (-1, 1):
            other = position + step
            while 0 <= other < len(order) and abs(other - position) <= window and keys[other] >> shift == coarse:
                key = rank_key(signatures[item], signatures[order[other]], order[other])
                if key > best[item, -1]:
                    insert(best[item], key)
                other += step


@njit(cache=True, nogil=True, parallel=True)
def rank_second_hand(
    best: NDArray[np.int64], signatures: NDArray[np.uint64], candidates: NDArray[np.int64], lists: NDArray[np.int32]
) -> None:
    """Rank the neighbors of each candidate's neighbors as its own.

    Args:
        best: (I, K) rank keys as in `rank_blocks`, improved in place.
        lists: (I, K) item rows of `best` before the call; so the result does not depend on the order of threads.
    """
    for c in prange(len(candidates)):
        item = candidates[c]
        for near in lists[item]:
            if near < 0:
                break
            for far in lists[near]:
                if far >= 0 and far != item:
                    key = rank_key(signatures[item], signatures[far], np.int64(far))
                    if key > best[item, -1]:
                        insert(best[item], key)


@called_for(Use.HASHED, Use.TRAINING)
@njit(cache=True, nogil=True)
def rows_of(best: Annotated[NDArray[np.int64], 2]) -> NDArray[np.int32]:
    """Item rows of rank keys (B, K), int32; −1 for an empty slot."""
    rows = np.empty(best.shape, dtype=np.int32)
    for q in range(best.shape[0]):
        for k in range(best.shape[1]):
            rows[q, k] = ROW_MASK - (best[q, k] & ROW_MASK) if best[q, k] >= 0 else -1
    return rows


@called_for(Use.HASHED, Use.TRAINING)
@njit(cache=True, nogil=True)
def fill_at_random(
    neighbors: Annotated[NDArray[np.int32], 2],
    candidates: NDArray[np.int64],
    queries: NDArray[np.int64],
    item_keys: NDArray[np.uint64],
    seed: np.uint64,
) -> int:
    """Fill empty slots of `neighbors` (B, K) with distinct random candidates, drawn by (seed, item key).

    Slots stay empty if there are fewer candidates than slots.

    Args:
        candidates: item rows, ascending.
        queries: (B,), the items that the lists belong to.

    Returns:
        The number of filled slots.
    """
    n_filled = 0
    for q in range(len(queries)):
        row = neighbors[q]
        position = np.searchsorted(candidates, queries[q])
        is_candidate = position < len(candidates) and candidates[position] == queries[q]
        wanted = min(len(row), len(candidates) - is_candidate)
        present = 0
        while present < wanted and row[present] >= 0:
            present += 1
        state = mix(item_keys[queries[q]] ^ mix(seed))
        while present < wanted:
            state += GOLDEN
            drawn = candidates[np.int64(mix(state) % np.uint64(len(candidates)))]
            if drawn != queries[q] and not np.any(row[:present] == drawn):
                row[present] = drawn
                present += 1
                n_filled += 1
    return n_filled


@called_for(Use.HASHED)
@njit(cache=True, nogil=True)
def outdated(
    neighbors: Annotated[NDArray[np.int32], 2],
    owners: NDArray[np.int64],
    changed: NDArray[np.int64],
    signatures: Annotated[NDArray[np.uint64], 2],
    is_candidate: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Which lists could differ from a new ranking after the items `changed` got new signatures or counts; bool (B,).

    A list is outdated if its owner or one of its members has changed, or if a changed candidate ranks before its worst
    member. All other lists are still exact.

    Args:
        neighbors: (B, K), exact lists from before the change, best first.
        owners: (B,), the items that the lists belong to.
        signatures, is_candidate: (I, W) and (I,), after the change.
    """
    is_changed = np.zeros(len(signatures), dtype=np.bool_)
    is_changed[changed] = True
    stale = np.zeros(len(owners), dtype=np.bool_)
    for q in range(len(owners)):
        owner = signatures[owners[q]]
        stale[q] = is_changed[owners[q]]
        for member in neighbors[q]:
            stale[q] |= member >= 0 and is_changed[member]
        if stale[q] or neighbors.shape[1] == 0:
            continue
        last = neighbors[q, -1]
        worst = rank_key(owner, signatures[last], np.int64(last)) if last >= 0 else np.int64(-1)
        for j in changed:
            if is_candidate[j] and rank_key(owner, signatures[j], j) > worst:
                stale[q] = True
                break
    return stale
