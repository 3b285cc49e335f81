"""Ratings: built once, checked once, the same matrix by user and by item."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.base.errors import InvalidRatings
from gpu.data.ratings import Ratings, Rows
from gpu.data.views import within_columns
from tests.gpu.models import ratings_of
from tests.gpu.strategies import matrices

entry = st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(-10, 10).map(float))


def dense(rows: Rows, n_columns: int) -> np.ndarray:
    matrix = np.full((len(rows.starts), n_columns), np.nan)
    for row, (start, length) in enumerate(zip(rows.starts, rows.lengths, strict=True)):
        columns = rows.items[start : start + length]
        assert (np.diff(columns) > 0).all()
        matrix[row, columns] = rows.values[start : start + length]
    return matrix


@given(st.lists(entry, max_size=60))
def test_the_last_of_a_repeated_pair_wins(entries: list[tuple[int, int, float]]) -> None:
    users, items, values = (np.array([e[n] for e in entries], dtype=np.float64) for n in range(3))
    ratings = Ratings.from_coo(users.astype(int), items.astype(int), values, (5, 7))
    expected = np.full((5, 7), np.nan)
    for user, item, value in entries:
        expected[user, item] = value
    np.testing.assert_array_equal(dense(ratings.by_user, 7), expected)
    np.testing.assert_array_equal(dense(ratings.by_item, 5), expected.T)
    assert len(ratings) == np.count_nonzero(~np.isnan(expected))


@given(matrices(), st.randoms(use_true_random=False))
def test_where_keeps_the_chosen_ratings(matrix: np.ndarray, random) -> None:
    ratings = ratings_of(matrix)
    keep = np.array([random.random() < 0.5 for _ in range(len(ratings))], dtype=np.bool_)
    users, items, _ = ratings.coo()
    expected = matrix.copy()
    expected[users[~keep], items[~keep]] = np.nan
    kept = ratings.where(keep)
    np.testing.assert_array_equal(dense(kept.by_user, matrix.shape[1]), expected)
    np.testing.assert_array_equal(kept.user_keys, ratings.user_keys)


@given(matrices(), st.integers(0, 12), st.integers(0, 12), st.integers(1, 2))
def test_columns_of_all_rows_are_those_of_the_matrix(matrix: np.ndarray, one: int, other: int, n_entries: int) -> None:
    """Also of pairs with two entries, as those whose rating and events disagree."""
    ratings = ratings_of(matrix)
    users, items, values = ratings.coo()
    n, shape = np.full(len(users), n_entries), (ratings.n_users, ratings.n_items)
    values, keys = np.arange(n_entries * len(values), dtype=np.float32), (ratings.user_keys, ratings.item_keys)
    first, end = sorted((one, other))
    rows = Ratings.of_entries(users, items, values, n, shape, *keys).by_user
    found = within_columns(rows, slice(first, end))
    np.testing.assert_array_equal(found.starts, np.cumsum(found.lengths) - found.lengths)
    keep = np.repeat((items >= first) & (items < end), n_entries)
    owners = np.repeat(np.arange(ratings.n_users), found.lengths)
    for actual, expected in ((owners, np.repeat(users, n)), (found.items + first, rows.items), (found.values, values)):
        np.testing.assert_array_equal(actual, expected[keep])
    assert (found.items.dtype, found.values.dtype) == (np.dtype(np.int32), np.dtype(np.float32))


def test_shape_defaults_to_the_largest_rows() -> None:
    ratings = Ratings.from_coo(np.array([4, 0]), np.array([1, 2]), np.array([1.0, 2.0]))
    assert (ratings.n_users, ratings.n_items, ratings.scale) == (5, 3, (1.0, 2.0))


def test_no_rating_at_all_is_a_matrix_without_a_scale() -> None:
    ratings = Ratings.from_coo(np.array([], int), np.array([], int), np.array([]))
    assert (ratings.n_users, ratings.n_items, len(ratings)) == (0, 0, 0)
    with pytest.raises(InvalidRatings, match="got none"):
        _ = ratings.scale


@pytest.mark.parametrize(
    ("users", "items", "values", "says"),
    [
        ([0, 1], [0, 1], [1.0, np.nan], "position 1"),
        ([0, 1], [0, 1], [np.inf, 1.0], "position 0"),
        ([0, 1], [0, 1], [1.0, -1e39], r"position 1: expected at most 3.402823e\+38, got -1e\+39"),
        ([0, 1], [0, 1], [3.4028236e38, 1.0], "position 0: expected at most"),
        ([0, 3], [0, 1], [1.0, 1.0], "rows of users: expected 0 to 2"),
        ([0, 1], [-1, 1], [1.0, 1.0], "rows of items"),
        ([0], [0, 1], [1.0, 1.0], "three equal"),
    ],
)
def test_invalid_ratings_are_refused(users: list[int], items: list[int], values: list[float], says: str) -> None:
    with pytest.raises(InvalidRatings, match=says):
        Ratings.from_coo(np.array(users), np.array(items), np.array(values), (3, 2))


def test_keys_must_fit() -> None:
    with pytest.raises(InvalidRatings, match="item_keys"):
        Ratings.from_coo(np.array([0]), np.array([0]), np.array([1.0]), item_keys=np.arange(3, dtype=np.uint64))
