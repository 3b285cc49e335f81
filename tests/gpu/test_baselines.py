"""Baselines: means and deviations, and zeros where there is nothing to average."""

from __future__ import annotations

import numpy as np
import pytest

from gpu.baselines import baselines
from gpu.ratings import Ratings


def test_baselines_are_shrunk_deviations_of_the_means() -> None:
    ratings = Ratings.from_coo(np.array([0, 0, 2]), np.array([0, 3, 3]), np.array([1.0, 2.0, 6.0]), (4, 5))
    known = baselines(ratings)
    assert known.mean == 3.0
    assert known.user.tolist() == pytest.approx([-3 / 7, 0.0, 3 / 6, 0.0])
    assert known.item.tolist() == pytest.approx([-2 / 6, 0.0, 0.0, 2 / 7, 0.0])
    assert known.user.dtype == known.item.dtype == np.float32


def test_no_ratings_have_zero_baselines() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    known = baselines(Ratings.from_coo(nothing, nothing, nothing.astype(float), (2, 1)))
    assert known.mean == 0.0
    assert not known.user.any()
    assert not known.item.any()
