from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpu
from benchmarks import half_life


def test_each_step_ranks_the_next_ratings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    path = tmp_path / "ratings.csv"
    rows = [
        f"u{user},i{item},{4 + int(generator.integers(2))},{1.6e9 + 1000 * n}"
        for n, (user, item) in enumerate(
            zip(generator.integers(0, 40, 1500), generator.integers(0, 30, 1500), strict=True)
        )
    ]
    path.write_text("\n".join(rows))
    monkeypatch.setattr(half_life, "N_PARTS", 4)
    monkeypatch.setattr(half_life, "N_TRAINED", 2)
    none, week = half_life.run(path, [7.0], gpu.HOST)
    assert (none.half_life_days, week.half_life_days, none.n_steps) == (0, 7, 2)
    assert none.ndcg_10 is not None
    assert 0 < none.ndcg_10 < 1
    assert none.ndcg_10 != week.ndcg_10
    none, week = half_life.run(path, [7.0], gpu.HOST, "sgd")
    assert none.rmse is not None
    assert 0.5 < none.rmse < 2
    assert none.rmse != week.rmse
