"""Synthetic matrices have the sizes of their shape, and each part of one can be drawn alone."""

from __future__ import annotations

import numpy as np
import pytest

import gpu
from benchmarks import make_ratings
from benchmarks.__main__ import run
from benchmarks.als_matrix import read
from benchmarks.make_ratings import NOISE, SHAPES, Matrix, Shape, write_matrix
from gpu.errors import InvalidInput

# Users of a few ratings and of most items, so that both ways of drawing pairs are met.
SHAPE = Shape(500, 90, 9000, 700, 0.5, 5.0, 0.5, 3.5, 1.1, 4, 1.3, 20.0)


@pytest.fixture(scope="module")
def matrix():
    return Matrix(SHAPE)


@pytest.fixture(scope="module")
def whole(matrix):
    return matrix.part(0, SHAPE.n_users)


def test_numbers_of_ratings_are_met(whole):
    assert np.count_nonzero(~whole.is_test) == SHAPE.n_train
    assert np.count_nonzero(whole.is_test) == SHAPE.n_test


def test_pairs_differ_and_both_ways_of_drawing_them_are_met(matrix, whole):
    pairs = whole.users.astype(np.int64) * SHAPE.n_items + whole.items
    assert (np.diff(pairs) > 0).all()
    is_heavy = matrix.n_ratings * make_ratings.HEAVY > SHAPE.n_items
    assert 10 < np.count_nonzero(is_heavy) < 490
    np.testing.assert_array_equal(np.bincount(whole.users), matrix.n_ratings)


def test_values_are_on_the_scale(whole):
    assert set(np.unique(whole.values)) == set(np.arange(0.5, 5.5, 0.5))


def test_half_of_a_users_ratings_are_for_training(matrix, whole):
    assert (np.bincount(whole.users[whole.is_test], minlength=SHAPE.n_users) == matrix.n_test).all()
    assert (matrix.n_test <= matrix.n_ratings // 2).all()
    assert matrix.n_ratings.min() >= SHAPE.least


@pytest.mark.parametrize(("first", "end"), [(0, 1), (7, 30), (499, 500)])
def test_a_part_is_drawn_alone(matrix, whole, first, end):
    part, among = matrix.part(first, end), (whole.users >= first) & (whole.users < end)
    for alone, together in zip(part, whole, strict=True):
        np.testing.assert_array_equal(alone, together[among])


def test_blocks_are_all_users_once(matrix, monkeypatch):
    monkeypatch.setattr(make_ratings, "BLOCK", 700)
    blocks = list(matrix.blocks())
    assert len(blocks) > 5
    assert [user for first, end in blocks for user in range(first, end)] == list(range(SHAPE.n_users))


def test_popular_items_are_rated_more(whole):
    counts = np.sort(np.bincount(whole.items, minlength=SHAPE.n_items))
    assert counts[0] > 0
    assert counts[-9:].sum() > 3 * counts[:9].sum()


def test_another_seed_is_another_matrix(matrix):
    other = Matrix(SHAPE, seed=1)
    assert not np.array_equal(other.n_ratings, matrix.n_ratings)
    assert other.part(0, 9).items.tolist() != matrix.part(0, 9).items.tolist()


def test_a_folder_is_what_the_measurements_read(matrix, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(make_ratings, "BLOCK", 700)
    write_matrix(matrix, "small", tmp_path)
    train, test = read(tmp_path)
    users, items, values = train.coo()
    np.testing.assert_array_equal(users, whole.users[~whole.is_test])
    np.testing.assert_array_equal(items, whole.items[~whole.is_test])
    np.testing.assert_array_equal(values, whole.values[~whole.is_test])
    by_item = gpu.Ratings.from_coo(users, items, values, (SHAPE.n_users, SHAPE.n_items)).by_item
    np.testing.assert_array_equal(train.by_item.items, by_item.items)
    assert len(test) == SHAPE.n_test


def test_what_is_planted_can_be_learned():
    shape = Shape(1000, 120, 50_000, 5000, 1.0, 5.0, 1.0, 3.5, 0.3, 20, 0.5, 50.0)
    drawn = Matrix(shape).part(0, shape.n_users)
    train, test = (
        gpu.Ratings.from_coo(drawn.users[part], drawn.items[part], drawn.values[part], (1000, 120))
        for part in (~drawn.is_test, drawn.is_test)
    )
    found = {}
    for algorithm in ("sgd", "als"):
        model = gpu.fit(train, gpu.params_for(algorithm, {"n_factors": 16}))
        found[algorithm] = gpu.evaluate.rmse(model, train.by_user, *test.coo())
    deviation = float(test.by_user.values.std())
    assert all(NOISE < error < 0.9 * deviation for error in found.values()), (found, deviation)


def test_the_shapes_are_the_published_ones():
    assert {name: shape[:4] for name, shape in SHAPES.items()} == {
        "netflix": (480_189, 17_770, 99_072_112, 1_408_395),
        "ml10m": (69_878, 10_677, 9_900_054, 100_000),
        "ml1m": (6040, 3706, 900_188, 100_021),
        "yahoo": (586_250, 12_658, 91_970_212, 1_000_000),
        "hugewiki-100th": (500_826, 39_780, 30_999_000, 100_000),
    }


def test_a_shape_without_room_is_refused():
    with pytest.raises(InvalidInput, match=r"expected room for 10,700 ratings, got \d"):
        Matrix(SHAPE._replace(n_users=100, n_train=10_000))


def test_an_unknown_shape_is_named(tmp_path, capsys):
    assert run(["make-ratings", "moon", str(tmp_path)]) == 2
    assert "expected one of netflix, ml10m, ml1m, yahoo, hugewiki-100th, got 'moon'" in capsys.readouterr().err
