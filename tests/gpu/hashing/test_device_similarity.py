"""Neighbors found on the device: simLSH and minHash list for list as on the host, GSM within rounding.

Every array is an allocation of its own, so that compute-sanitizer sees what goes past its end:

    compute-sanitizer --tool memcheck --error-exitcode 9 python -m pytest -q tests/gpu/hashing/test_device_similarity.py
    compute-sanitizer --tool racecheck --error-exitcode 9 pytest -q tests/gpu/hashing/test_device_similarity.py
"""

import importlib
from types import ModuleType
from typing import get_args

import numpy as np
import pytest

from gpu.base.backend import HOST, Backend
from gpu.data.ratings import Ratings
from gpu.descent.params import CulshImplicitParams, CulshParams
from gpu.hashing import host_similarity as host
from gpu.hashing import similarity
from gpu.hashing.params import Similarity
from tests import reference
from tests.gpu.hashing.test_device_lsh import LENGTHS, ratings_of

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
EXACT = [name for name in get_args(Similarity) if name != "gsm"]


@pytest.fixture(autouse=True)
def comparators(no_pool: None) -> ModuleType:
    """The device's primitives, without a memory pool."""
    return importlib.import_module("gpu.hashing.device_similarity")


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("psi", ["power", "residual"])
def test_lists_equal_the_hosts(name, psi, comparators):
    ratings = ratings_of(LENGTHS if name != "minhash" else [0, 1, 300, 8200, 40])
    params = CulshParams(similarity=name, n_neighbors=5, n_bits=320, psi=psi, seed=4)
    found, expected = (similarity.neighbors(ratings, params, backend) for backend in (DEVICE, HOST))
    np.testing.assert_array_equal(found.neighbors, expected.neighbors)
    np.testing.assert_array_equal(found.projections, expected.projections)
    assert found.filled == expected.filled


def test_implicit_neighbors_and_none(comparators):
    ratings = ratings_of(LENGTHS)
    for params in (CulshImplicitParams(n_bits=64), CulshParams(n_neighbors=0)):
        found, expected = (similarity.neighbors(ratings, params, backend) for backend in (DEVICE, HOST))
        np.testing.assert_array_equal(found.neighbors, expected.neighbors)
        np.testing.assert_array_equal(found.projections, expected.projections)


@pytest.mark.parametrize("n_words", [1, 4, 38])
def test_minhash_equals_the_hosts(n_words, comparators):
    ratings = ratings_of([0, 1, 5, 255, 256, 257, 600], 700)
    found = comparators.minhash(ratings, n_words, 5).get()
    np.testing.assert_array_equal(found, host.minhash(ratings, n_words, 5))


def random_ratings(n_users: int, n_items: int, values: np.ndarray) -> tuple[Ratings, np.ndarray]:
    """(ratings, the same as a matrix with NaN where there is none); a third of the pairs, one item without any."""
    rng = np.random.default_rng(0)
    matrix = rng.choice(values, (n_users, n_items)) + 0.0
    matrix[rng.random(matrix.shape) < 0.66] = np.nan
    matrix[:, 2] = np.nan
    users, items = np.nonzero(~np.isnan(matrix))
    return Ratings.from_coo(users, items, matrix[users, items], matrix.shape), matrix


@pytest.mark.parametrize("batch", [None, 7])
@pytest.mark.parametrize("values", [np.arange(1, 11) / 2, np.random.default_rng(1).normal(3, 1, 50)])
def test_gsm_is_shrunk_pearson_on_common_raters(values, batch, comparators, monkeypatch):
    ratings, matrix = random_ratings(90, 21, values.astype(np.float32))
    if batch:
        monkeypatch.setattr(comparators, "free_bytes", lambda: batch * comparators.MOMENTS_SHARE * 24 * 24)
        monkeypatch.setattr(comparators, "USERS_BYTES", 10 * 24 * 3 * 2)
    k = 6
    found = comparators.gsm(ratings, k, similarity.GSM_SHRINKAGE).get()
    for item in range(21):
        exact = [reference.shrunk_pearson(matrix, item, j, similarity.GSM_SHRINKAGE) for j in range(21)]
        exact[item] = 0.0
        wanted = sorted((s for s in exact if s > 0), reverse=True)[:k]
        assert (found[item] >= 0).sum() == len(wanted)
        np.testing.assert_allclose([exact[j] for j in found[item][: len(wanted)]], wanted, atol=2e-6)


def test_gsm_without_ratings(comparators):
    nothing = np.zeros(0, np.int64)
    for shape in ((0, 0), (2, 3)):
        ratings = Ratings.from_coo(nothing, nothing, nothing.astype(float), shape)
        found = comparators.gsm(ratings, 2, similarity.GSM_SHRINKAGE).get()
        assert (found == -1).all()
        assert found.shape == (shape[1], 2)
