from __future__ import annotations

import itertools

import pytest

import gpu
from benchmarks import topn


@pytest.fixture(autouse=True)
def _in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topn, "BUDGET_S", 0.02)


def test_every_shape_is_measured_in_its_order() -> None:
    axes = itertools.product((90, 700), (0, 4), (1, 3), (1.0, 0.5))
    shapes = [topn.Shape(items, users, 3, 8, k, 5, share) for items, k, users, share in axes]
    rows = [row for row in topn.run(shapes, gpu.HOST) if row.code == "host"]
    sizes = [(one.items, one.users, one.neighbors, one.eligible) for one in shapes]
    assert [(row.items, row.users, row.neighbors, row.eligible) for row in rows] == sizes
    for row in rows:
        assert 0 < row.least_ms <= row.ms <= row.most_ms
        assert row.users_per_s == pytest.approx(1e3 * row.users / row.ms)


def test_what_is_planted_is_the_same_each_time() -> None:
    shape = topn.Shape(500, 4, 3, 8, 2, 20, 1)
    one, other = topn.model_of(shape), topn.model_of(shape)
    assert (one.item_factors == other.item_factors).all()
    assert (one.neighbors == other.neighbors).all()
    assert (topn.ratings_of(shape).lengths <= 20).all()
