"""The measurement of new films splits and counts as it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpu
from benchmarks import new_items
from benchmarks.new_items import Split
from tests import data


def test_new_films_have_only_their_first_ratings() -> None:
    ratings = data.planted()
    split = Split.drawn(ratings, seed=1)
    assert split.is_new.sum() == round(new_items.SHARE * ratings.n_items)
    assert len(split.train) + len(split.known) + len(split.test) == len(ratings)
    before = np.zeros(0, dtype=np.int64)
    for k in (0, 1, 3):
        learned = split.learned(k)
        counts = learned.by_item.lengths
        np.testing.assert_array_equal(counts[~split.is_new], ratings.by_item.lengths[~split.is_new])
        np.testing.assert_array_equal(counts[split.is_new], np.minimum(split.known.by_item.lengths[split.is_new], k))
        pairs = learned.coo()[0].astype(np.int64) * ratings.n_items + learned.coo()[1]
        assert np.isin(before, pairs).all()
        before = pairs


def test_hits() -> None:
    users, items, stars = np.array([0, 0, 0, 1, 2]), np.array([1, 2, 3, 1, 1]), np.array([5.0, 4.0, 3.0, 4.0, 1.0])
    test = gpu.Ratings.from_coo(users, items, stars, (3, 30))
    lists = np.array([[9, 1, *range(10, 28)], list(range(2, 22)), [1, *range(2, 21)]])
    assert new_items.hits_of(test, np.arange(3, dtype=np.int32), lists) == pytest.approx((0.5, 0.25))


def test_films_have_genres_and_years(tmp_path: Path) -> None:
    (tmp_path / "movies.dat").write_text("1::Caché (x) (2005)::War|Love\n", "latin-1")
    found = new_items.films(tmp_path / "movies.dat", ["7", "1"])
    assert found == [({}, None), ({"genre": ["War", "Love"], "year": ["2005"]}, None)]
