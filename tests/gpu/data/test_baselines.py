"""Baselines: means and deviations, and zeros where there is nothing to average."""

import numba
import numpy as np
import pytest

from gpu.data.baselines import PRIOR, TURNS, baselines, residual_deviation, shrunk_biases
from gpu.data.ratings import Ratings


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


@pytest.fixture(scope="module")
def drawn() -> Ratings:
    """Ratings of 700 users and 90 items: the first user rated nearly all items, and nobody rated the last item."""
    generator = np.random.default_rng(5)
    pairs = np.unique(
        np.concatenate([np.arange(89), generator.integers(0, 700, 4000) * 90 + generator.integers(0, 89, 4000)])
    )
    values = generator.integers(-9, 10, len(pairs)) / 2
    return Ratings.from_coo(pairs // 90, pairs % 90, values, (700, 90))


def _shrunk(rows: np.ndarray, left: np.ndarray, n_rows: int) -> np.ndarray:
    return np.array([left[rows == row].sum() / (np.count_nonzero(rows == row) + PRIOR) for row in range(n_rows)])


def test_shrunk_biases_alternate_between_both_sides(drawn: Ratings) -> None:
    users, items, values = drawn.coo()
    mean = values.mean(dtype=np.float64)
    user, item = np.zeros(700), np.zeros(90)
    for _ in range(TURNS):
        item = _shrunk(items, values - mean - user[users], 90)
        user = _shrunk(users, values - mean - item[items], 700)
    found = shrunk_biases(drawn)
    assert found.user == pytest.approx(user, abs=1e-5)
    assert found.item == pytest.approx(item, abs=1e-5)
    assert found.item[89] == 0
    left = values - mean - user[users] - item[items]
    assert residual_deviation(drawn, found) == pytest.approx(np.sqrt(np.mean(left**2)), abs=1e-5)


def test_biases_have_equal_bits_on_any_number_of_threads(drawn: Ratings) -> None:
    several = shrunk_biases(drawn)
    n_threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        alone = shrunk_biases(drawn)
    finally:
        numba.set_num_threads(n_threads)
    assert np.array_equal(alone.user, several.user)
    assert np.array_equal(alone.item, several.item)
    assert residual_deviation(drawn, alone) == residual_deviation(drawn, several)
