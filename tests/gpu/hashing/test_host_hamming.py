"""Kernels of ranking by agreement: popcounts, rank keys and rank lists."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.hashing import host_hamming as hamming

words = st.integers(0, 2**64 - 1)
quick = settings(max_examples=60)


@quick
@given(st.lists(words, min_size=3, max_size=3), st.lists(words, min_size=3, max_size=3))
def test_agreement_counts_equal_bits(one: list[int], other: list[int]) -> None:
    expected = 192 - sum((a ^ b).bit_count() for a, b in zip(one, other, strict=True))
    assert hamming.agreement(np.array(one, np.uint64), np.array(other, np.uint64)) == expected


@quick
@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 6))
def test_insert_keeps_the_largest_distinct_keys(keys: list[int], k: int) -> None:
    best = np.full(k, -1, dtype=np.int64)
    for key in keys:
        hamming.insert(best, np.int64(key))
    expected = sorted(set(keys), reverse=True)[:k]
    assert best.tolist() == expected + [-1] * (k - len(expected))


def test_rank_keys_order_by_agreement_then_lower_row() -> None:
    zero, one = np.array([0], np.uint64), np.array([1], np.uint64)
    nearer_late = hamming.rank_key(zero, zero, np.int64(2**31 - 1))
    farther_early = hamming.rank_key(zero, one, np.int64(0))
    assert nearer_late > farther_early > hamming.rank_key(zero, one, np.int64(1)) >= 0
    assert hamming.rows_of(np.array([[nearer_late, farther_early, -1]])).tolist() == [[2**31 - 1, 0, -1]]


@quick
@given(st.integers(0, 2**32), st.integers(0, 70))
def test_all_threads_rank_as_one(seed: int, n_queries: int) -> None:
    rng = np.random.default_rng(seed)
    signatures = rng.integers(0, 2**16, (50, 3), dtype=np.uint64)
    candidates, queries = np.flatnonzero(rng.random(50) < 0.7), rng.integers(0, 50, n_queries)
    alone, together = np.full((2, n_queries, 4), -1, dtype=np.int64)
    hamming.rank_blocks(alone, signatures, candidates, queries)
    hamming.rank_blocks_parallel(together, signatures, candidates, queries)
    np.testing.assert_array_equal(alone, together)
