"""Model: named arrays that grow and move together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.base.errors import InvalidInput
from gpu.data.model import ARRAYS, NO_NEIGHBOR, Model
from gpu.descent.params import CulshParams, SgdParams
from gpu.training import evaluate
from tests.gpu.models import ratings_of
from tests.gpu.strategies import matrices, random_model


def test_a_new_model_is_zeros_without_neighbors() -> None:
    model = Model.zeros(CulshParams(n_factors=4, n_neighbors=3), 3.5, (1, 5), 6, 5, n_bits=128)
    assert (model.n_users, model.n_items, model.projections.shape) == (6, 5, (5, 128))
    assert (model.neighbors == NO_NEIGHBOR).all()
    assert not model.user_trained.any()
    assert not model.is_implicit


def test_a_model_without_neighbors_has_empty_lists() -> None:
    assert Model.zeros(SgdParams(), 0.0, (1, 5), 2, 3).neighbors.shape == (3, 0)


def test_growing_keeps_old_rows_and_adds_empty_ones() -> None:
    model = random_model(np.full((4, 5), np.nan), 3, False, 1)
    before = {name: array.copy() for name, array in model.arrays.items()}
    for n_users, n_items in ((5, 5), (5, 9), (40, 30), (3, 3)):
        model.grow(n_users, n_items)
    assert (model.n_users, model.n_items) == (40, 30)
    for name, array in model.arrays.items():
        np.testing.assert_array_equal(array[: len(before[name])], before[name])
        assert (array[len(before[name]) :] == (-1 if name in ("neighbors", "item_slots") else 0)).all()


@given(matrices(), st.integers(0, 3), st.booleans(), st.integers(0, 99))
@settings(max_examples=40)
def test_a_moved_model_predicts_the_same(matrix: np.ndarray, k: int, implicit: bool, seed: int) -> None:
    model, generator = random_model(matrix, k, implicit, seed), np.random.default_rng(seed)
    shape = matrix.shape[0] + 2, matrix.shape[1] + 3
    users, items = (generator.permutation(n)[:m] for n, m in zip(shape, matrix.shape, strict=True))
    moved_matrix = np.full(shape, np.nan)
    moved_matrix[np.ix_(users, items)] = matrix
    moved = model.mapped(users, items, *shape)
    old_users, old_items = (index.ravel() for index in np.indices(matrix.shape))
    expected = evaluate.predict(model, ratings_of(matrix).by_user, old_users, old_items)
    found = evaluate.predict(moved, ratings_of(moved_matrix).by_user, users[old_users], items[old_items])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_dropped_item_is_no_neighbor() -> None:
    model = random_model(np.full((2, 4), np.nan), 2, False, 0)
    model.neighbors[:] = [[1, 2], [0, 3], [3, 1], [2, 0]]
    moved = model.mapped(np.array([0, -1]), np.array([2, -1, 0, 1]), 1, 3)
    assert moved.neighbors.tolist() == [[1, NO_NEIGHBOR], [0, 2], [NO_NEIGHBOR, 0]]


def test_a_model_that_keeps_its_rows_is_copied_whole() -> None:
    model = random_model(np.full((3, 4), np.nan), 2, False, 0)
    moved = model.mapped(np.arange(3), np.arange(4), 5, 6)
    lengths = {"U": 3, "I": 4, "T": 0}
    for name, (axes, _) in ARRAYS.items():
        array = getattr(moved, name)
        np.testing.assert_array_equal(array[: lengths[axes[0]]], getattr(model, name))
    assert moved.user_factors.shape[0] == 5
    assert not moved.user_factors[3:].any()
    assert (moved.neighbors[4:] == NO_NEIGHBOR).all()


def test_arrays_must_fit_together() -> None:
    arrays = Model.zeros(SgdParams(n_factors=2), 0.0, (1, 5), 2, 3).arrays
    with pytest.raises(InvalidInput, match="item_factors"):
        Model(SgdParams(), 0.0, (1, 5), arrays | {"item_factors": np.zeros((3, 5), np.float32)})
    with pytest.raises(InvalidInput, match="user_bias"):
        Model(SgdParams(), 0.0, (1, 5), arrays | {"user_bias": np.zeros(2, np.float64)})
    with pytest.raises(InvalidInput, match="arrays of model"):
        Model(SgdParams(), 0.0, (1, 5), {"user_bias": np.zeros(2, np.float32)})
