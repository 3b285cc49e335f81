from __future__ import annotations

import pytest

import gpu
from benchmarks import topn


@pytest.fixture(autouse=True)
def _in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topn, "BUDGET_S", 0.02)


def test_every_shape_is_measured_in_its_order() -> None:
    shapes = [topn.Shape(items, users, 3, 8, k, 5) for items in (90, 700) for k in (0, 4) for users in (1, 3)]
    rows = [row for row in topn.run(shapes, gpu.HOST) if row.code == "host"]
    assert [(row.items, row.users, row.neighbors) for row in rows] == [(s.items, s.users, s.neighbors) for s in shapes]
    for row in rows:
        assert 0 < row.least_ms <= row.ms <= row.most_ms
        assert row.users_per_s == pytest.approx(1e3 * row.users / row.ms)


def test_what_is_planted_is_the_same_each_time() -> None:
    shape = topn.Shape(500, 4, 3, 8, 2, 20)
    one, other = topn.model_of(shape), topn.model_of(shape)
    assert (one.item_factors == other.item_factors).all()
    assert (one.neighbors == other.neighbors).all()
    assert (topn.ratings_of(shape).lengths <= 20).all()
