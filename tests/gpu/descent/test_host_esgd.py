"""An epoch of ESGD on the host against the oracle, one rating after the other."""

import numpy as np
import pytest

from gpu.data.baselines import shrunk_biases
from gpu.descent import esgd
from gpu.descent import host_esgd as host
from gpu.descent.order import CHUNK
from gpu.descent.params import EsgdParams
from tests import reference
from tests.gpu.models import random_matrix, ratings_of

STEP, DECAY, ITEM_DECAY = np.float32(0.05), np.float32(0.1), np.float32(0.15)


@pytest.mark.parametrize("n_factors", [1, 3, 16, 33])
@pytest.mark.parametrize("shape", [(1, 1), (1, 31), (8, 8), (40, 50), (150, 60)])
def test_an_epoch_visits_in_the_order_that_is_told(shape: tuple[int, int], n_factors: int) -> None:
    matrix = random_matrix(*shape, 0.6, seed=2)
    matrix[0, 0] = 3
    ratings = ratings_of(matrix)
    model = esgd.start_model(ratings, EsgdParams(n_factors=n_factors))
    order, known = esgd.order_of(len(ratings), 4), shrunk_biases(ratings)
    samples = host.load(ratings, known, order)
    users, items = host.load_factors(model.user_factors), host.load_factors(model.item_factors)
    host.learn_epoch(samples, users, items, STEP, DECAY, ITEM_DECAY)
    mean, user_bias, item_bias = reference.shrunk_biases(matrix)
    left = matrix - mean - user_bias[:, None] - item_bias
    pairs = np.argwhere(~np.isnan(matrix))
    visits = reference.esgd_visits(len(pairs), order.visits.tolist(), order.stride, CHUNK)
    expected = model.user_factors.astype(np.float64), model.item_factors.astype(np.float64)
    rates = float(STEP), float(DECAY), float(ITEM_DECAY)
    reference.esgd_epoch([(u, j, left[u, j]) for u, j in pairs[visits].tolist()], *expected, *rates)
    np.testing.assert_allclose(users, expected[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(items, expected[1], rtol=1e-3, atol=1e-5)


def test_tables_are_copies() -> None:
    table = np.ones((2, 3), dtype=np.float32)
    host.load_factors(table)[:] = 0
    assert table.all()


def test_what_is_not_finite_is_seen() -> None:
    table = np.ones((2, 3), dtype=np.float32)
    assert host.is_finite(table, table)
    assert not host.is_finite(table, np.full((2, 3), np.nan, dtype=np.float32))
