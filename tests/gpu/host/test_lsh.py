"""Kernels of hashing: the generator, the layout of words, sums and signs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.host import lsh
from tests import reference

words = st.integers(0, 2**64 - 1)
quick = settings(max_examples=60, deadline=None)


@quick
@given(words, words, st.integers(1, 5))
def test_user_bits_are_splitmix64_keyed_by_seed_and_user(seed: int, key: int, n: int) -> None:
    drawn = np.zeros(n, dtype=np.uint64)
    lsh.fill_bits(drawn, np.uint64(seed), np.uint64(key))
    assert drawn.tolist() == reference.counter_draws(seed, key, n)


def test_splitmix64_of_a_known_state() -> None:
    # First output of the published generator started at 0: what our finaliser makes of one golden step.
    assert int(lsh.mix(lsh.GOLDEN)) == 0xE220A8397B1DCDAF


@quick
@given(words, st.integers(-8192, 8192))
def test_a_rating_adds_its_weight_with_the_sign_of_each_bit(key: int, weight: int) -> None:
    sums = np.full(128, 7, dtype=np.int32)
    bits = np.zeros(2, dtype=np.uint64)
    lsh.fill_bits(bits, np.uint64(1), np.uint64(key))
    lsh.add_signed(sums, bits.view(np.uint32), np.int32(weight))
    np.testing.assert_array_equal(sums, 7 + weight * reference.user_signs(1, key, 128))


def test_sums_that_wrap_are_still_undone_exactly() -> None:
    sums = np.full((1, 64), 2**31 - 1, dtype=np.int32)
    item, key = np.zeros(1, np.int64), np.array([42], np.uint64)
    before = sums.copy()
    for weight in (4096, -4096):
        lsh.update(sums, item, key, np.array([weight], np.int32), np.uint64(0))
    np.testing.assert_array_equal(sums, before)


def test_a_sum_of_zero_is_a_set_bit() -> None:
    packed = np.zeros((2, 2), dtype=np.uint32)
    sums = np.zeros((2, 64), dtype=np.int32)
    sums[1] = -1
    lsh.sign(packed, sums, np.arange(2))
    assert packed.tolist() == [[2**32 - 1] * 2, [0, 0]]
