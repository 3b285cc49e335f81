"""Passes over tens of millions of rows, on all cores: the results are those of plain NumPy."""

import numpy as np
import pytest

from gpu.cuda.work import ITEM
from gpu.data import views
from gpu.data.ratings import Rows


@pytest.mark.parametrize("n", [0, 1, 63, 64, 5000])
@pytest.mark.parametrize("longest", [0, 3, 9000, views.MOST_GROUPS, 10**9])
def test_rows_are_sorted_longest_first_and_equal_ones_stay_in_order(n: int, longest: int) -> None:
    lengths = np.random.default_rng(n).integers(0, longest + 1, n)
    np.testing.assert_array_equal(views.longest_first(lengths), np.argsort(-lengths, kind="stable"))


@pytest.mark.parametrize("n_groups", [1, 7, 1056])
def test_places_by_group_stay_in_order(n_groups: int) -> None:
    groups = np.random.default_rng(0).integers(0, n_groups, 3000)
    np.testing.assert_array_equal(views.by_group(groups, n_groups), np.argsort(groups, kind="stable"))


def test_records_are_taken_whole() -> None:
    items = np.zeros(1000, dtype=ITEM)
    items["begin"], items["weight"] = np.arange(1000) << 33, np.arange(1000) / 7
    order = np.random.default_rng(0).permutation(1000)[:900]
    assert views.taken(items, order).tobytes() == items[order].tobytes()
    assert len(views.taken(items[:0], order[:0])) == 0


def test_extremes_are_those_of_each_row() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 5, 700)
    ends = np.cumsum(lengths)
    rows = Rows(ends - lengths, lengths, np.zeros(ends[-1], np.int32), rng.standard_normal(ends[-1]).astype(np.float32))
    lowest, highest = views.extremes_of(rows)
    for row, own in enumerate(np.split(rows.values, ends[:-1])):
        assert (lowest[row], highest[row]) == ((own.min(), own.max()) if len(own) else (0, 0))


@pytest.mark.parametrize("n", [1, 2, 999, 1000, 4321])
@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0), (1.0, 0.5, 2.0, 1.0), (1.0,) * 9])
@pytest.mark.parametrize("row_cost", [0, 16])
def test_bounds_are_those_of_a_sum_over_all_rows(
    monkeypatch, n: int, weights: tuple[float, ...], row_cost: int
) -> None:
    monkeypatch.setattr(views, "BOUND_ROWS", 100)
    lengths = np.random.default_rng(n).integers(0, 9, n)
    lengths[n // 3 : n // 2] = 0
    ends, parts = np.cumsum(np.where(lengths > 0, lengths + row_cost, 0)), np.cumsum(weights)
    targets = parts[:-1] * (ends[-1] / parts[-1])
    expected = [0, *np.searchsorted(ends, targets), n]
    np.testing.assert_array_equal(views.weighted_bounds(lengths, weights, row_cost), expected)
