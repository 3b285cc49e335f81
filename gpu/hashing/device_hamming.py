"""Neighbors by agreement of signatures on a CUDA device: ranking, random filling, and finding outdated lists.

The twin of `gpu.hashing.host_hamming`, with equal keys. Kernels and their ownership of data: kernels/hamming.cu,
ranks.cuh.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np

from gpu.cuda.kernels import kernel

NAME = "hamming"
TILE, TILE_THREADS = 128, 256  # as in kernels/hamming.cu
WARP, THREADS = 32, 256
RANK_BYTES = 8
AT_ONCE_BYTES = 256 * 2**20  # bytes; agreements in memory at a time
ROW_UNIT = 8  # agreements that a lane reads at a time


def rank_all(best: Any, signatures: Any, candidates: Any, queries: Any) -> None:
    """Exact ranking: every candidate against every query.

    Args:
        best: int64 (B, K), filled with rank keys; padded with −1.
        signatures: uint64 (I, W).
        candidates, queries: int64 item rows; `candidates` ascends.
    """
    if not len(candidates):
        best.fill(-1)
        return
    ones = cupy.empty(len(signatures), dtype=cupy.int32)
    _run("count_ones", len(signatures) * WARP, signatures, _words(signatures), np.int32(len(signatures)), ones)
    for first, agreements in agreeing(signatures, ones, candidates, queries):
        part = slice(first, first + len(agreements))
        rows = agreements, np.int32(agreements.shape[1]), queries[part]
        arguments = *rows, candidates, np.int32(len(candidates)), _k(best), best[part]
        _run_lists("select_agreeing", best, len(agreements), *arguments)


def agreeing(signatures: Any, ones: Any, candidates: Any, queries: Any) -> Iterator[tuple[int, Any]]:
    """Numbers of equal bits of queries and candidates, for as many queries at a time as fit into memory.

    Args:
        signatures: uint64 (I, W).
        ones: int32 (I,), bits that are 1.
        candidates, queries: int64 item rows.

    Yields:
        (first, uint16 (rows, stride)): row n belongs to query first + n and starts with the numbers of the candidates,
        in their order. The next array overwrites it.
    """
    stride = -(-len(candidates) // ROW_UNIT) * ROW_UNIT
    n_rows = min(len(queries), max(TILE, AT_ONCE_BYTES // (2 * stride) // TILE * TILE))
    agreements = cupy.empty((n_rows, stride), dtype=cupy.uint16)
    for first in range(0, len(queries), n_rows or 1):
        part = queries[first : first + n_rows]
        sides = part, np.int32(len(part)), candidates, np.int32(len(candidates))
        grid = -(-len(candidates) // TILE), -(-len(part) // TILE)
        arguments = signatures, _words(signatures), ones, *sides, agreements, np.int32(stride)
        kernel(NAME, "agree", {})(grid, (TILE_THREADS,), arguments)
        yield first, agreements[: len(part)]


def coarse_words(signatures: Any, candidates: Any, table: int) -> Any:
    """16 bits of each candidate's signature from slice `table` on and the 48 of the slices after it, cyclic; (C,)."""
    words = cupy.empty(len(candidates), dtype=cupy.uint64)
    n_slices = np.int32(4 * signatures.shape[1])
    _run("coarse_words", len(words), signatures, n_slices, candidates, np.int64(len(words)), np.int32(table), words)
    return words


def rank_buckets(best: Any, signatures: Any, order: Any, keys: Any, n_key_bits: int, window: int) -> None:
    """Rank each item's bucket mates for it, for one table of coarse keys; arguments as of the host's twin."""
    bounds = np.int32(len(order)), np.int32(64 - n_key_bits), np.int32(window)
    _run_lists("rank_buckets", best, len(order), best, _k(best), signatures, _words(signatures), order, keys, *bounds)


def rank_second_hand(best: Any, signatures: Any, candidates: Any, lists: Any) -> None:
    """Rank for each candidate the neighbors of its neighbors; arguments as of the host's twin."""
    arguments = best, _k(best), signatures, _words(signatures), candidates, lists
    _run_lists("rank_second_hand", best, len(candidates), *arguments)


def rows_of(best: Any) -> Any:
    """Item rows of rank keys, int32; −1 for an empty slot."""
    rows = cupy.empty(best.shape, dtype=cupy.int32)
    _run("rows_of", best.size, best, np.int64(best.size), rows)
    return rows


def fill_at_random(neighbors: Any, candidates: Any, queries: Any, item_keys: Any, seed: np.uint64) -> int:
    """Fill empty slots with distinct random candidates, drawn by (seed, item key); returns how many were filled.

    Waits for the result. Arguments as of the host's twin.
    """
    n_lists, k = neighbors.shape
    n_filled = cupy.zeros(1, dtype=cupy.int32)
    lists = neighbors, np.int32(k), np.int32(n_lists)
    drawn = candidates, np.int64(len(candidates)), queries, item_keys, np.uint64(seed), n_filled
    _run("fill_at_random", n_lists, *lists, *drawn)
    return int(n_filled[0])


def outdated(neighbors: Any, owners: Any, changed: Any, signatures: Any, is_candidate: Any) -> Any:
    """Which lists may differ from a new ranking, bool (B,); arguments as in the host's twin."""
    is_changed, stale = cupy.zeros(len(signatures), dtype=cupy.bool_), cupy.empty(len(owners), dtype=cupy.bool_)
    is_changed[changed] = True
    lists = neighbors, np.int32(neighbors.shape[1]), owners, changed, np.int32(len(changed)), is_changed
    if len(owners):
        arguments = *lists, signatures, _words(signatures), is_candidate, stale
        kernel(NAME, "outdated", {})((len(owners),), (WARP,), arguments)
    return stale


def _run_lists(function: str, best: Any, n_warps: int, *arguments: Any) -> None:
    """Run a kernel whose blocks are one warp each, with shared memory for its list."""
    if n_warps and best.shape[1]:
        kernel(NAME, function, {})((n_warps,), (WARP,), arguments, shared_mem=RANK_BYTES * best.shape[1])


def _run(function: str, n_threads: int, *arguments: Any) -> None:
    if n_threads:
        kernel(NAME, function, {})((-(-n_threads // THREADS),), (THREADS,), arguments)


def _words(signatures: Any) -> np.int32:
    return np.int32(signatures.shape[1])


def _k(best: Any) -> np.int32:
    return np.int32(best.shape[1])
