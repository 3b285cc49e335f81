"""Rows in an order that does not depend on when they were given out."""

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from gpu.online import exact, sampled


def result(slices: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(slices)
        except StopIteration as stop:
            return stop.value


@pytest.mark.parametrize("sorted_at_once", [0, 1000])
def test_trained_rows_come_by_key(sorted_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "SORTED_AT_ONCE", sorted_at_once)
    rng = np.random.default_rng(0)
    keys, mask = rng.integers(0, 2**63, 500).astype(np.uint64), rng.random(500) < 0.5
    rows = result(sampled._by_key(mask, keys))
    assert sorted(rows.tolist()) == np.flatnonzero(mask).tolist()
    assert (np.diff(keys[rows].astype(np.int64)) > 0).all()


@pytest.mark.parametrize("numbers_per_slice", [7, 10_000])
def test_the_bound_is_above_every_sum_of_products(numbers_per_slice: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "NUMBERS_PER_SLICE", numbers_per_slice)
    rng = np.random.default_rng(0)
    factors, is_trained = rng.standard_normal((100, 4)).astype(np.float32), rng.random(100) < 0.7
    bound = result(exact.bound_of(factors, is_trained))
    trained = factors[is_trained]
    assert np.abs(trained.T @ trained).max() < bound <= 4 * len(trained) * np.abs(trained).max() ** 2
    assert np.log2(bound) % 1 == 0
