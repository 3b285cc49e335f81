"""ESGD on the device against its twin on the host: every width, ragged ends, and nothing lost where all add at once.

The first tests are small enough for a sanitizer, each array its own allocation:

    compute-sanitizer --tool memcheck --error-exitcode 9 pytest -q tests/gpu/descent/test_device_esgd.py -k alone
"""

import importlib
from types import ModuleType

import numpy as np
import pytest

import gpu
from gpu.base.backend import HOST, Backend
from gpu.data.baselines import Baselines, shrunk_biases
from gpu.data.ratings import Ratings
from gpu.descent import esgd
from gpu.descent import host_esgd as host
from gpu.descent.params import EsgdParams
from tests.data import ML_1M, needs_ml_1m, planted, split
from tests.gpu.descent.test_esgd import rmse_by_epoch
from tests.gpu.models import random_matrix, ratings_of

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
FACTORS = [1, 4, 5, 8, 16, 31, 32, 64, 96, 100, 128, 200, 256, 1024]
STEP, DECAY, ITEM_DECAY = np.float32(0.05), np.float32(0.1), np.float32(0.15)


@pytest.fixture
def device() -> ModuleType:
    """The device's primitives."""
    return importlib.import_module("gpu.descent.device_esgd")


@pytest.fixture
def unpooled(device: ModuleType, no_pool: None) -> ModuleType:
    """The same without a memory pool."""
    return device


def apart(n: int) -> Ratings:
    """`n` ratings of as many users and items: no two meet."""
    generator = np.random.default_rng(n)
    return Ratings.from_coo(np.arange(n), generator.permutation(n), generator.integers(1, 6, n).astype(float))


def after_an_epoch(twin: ModuleType, ratings: Ratings, n_factors: int, step: np.float32) -> tuple[np.ndarray, ...]:
    """Both tables, from random ones of either sign."""
    generator = np.random.default_rng(n_factors)
    tables = [generator.standard_normal((n, n_factors), dtype=np.float32) for n in (ratings.n_users, ratings.n_items)]
    samples = twin.load(ratings, shrunk_biases(ratings), esgd.order_of(len(ratings), 3))
    twin.prepare(n_factors)
    users, items = (twin.load_factors(table * np.float32(n_factors**-0.5)) for table in tables)
    twin.learn_epoch(samples, users, items, step, DECAY, ITEM_DECAY)
    twin.finish()
    found = tuple(twin.fetch(table) for table in (users, items))
    assert not any(table[:, n_factors:].any() for table in found)
    return tuple(table[:, :n_factors] for table in found)


def assert_twins(twin: ModuleType, ratings: Ratings, n_factors: int) -> None:
    found, expected = (after_an_epoch(home, ratings, n_factors, STEP) for home in (twin, host))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_factors", FACTORS)
def test_ratings_alone_are_learned_as_on_the_host(n_factors, unpooled):
    assert_twins(unpooled, apart(3000), n_factors)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 2047, 2048, 2049, 70_001])
def test_ratings_alone_of_any_number(n, unpooled):
    assert_twins(unpooled, apart(n), 16)


def test_ratings_alone_without_adding_pieces_at_once(unpooled, monkeypatch):
    monkeypatch.setattr(unpooled, "VECTOR_FROM", 1000)
    assert_twins(unpooled, apart(3000), 20)


def test_targets_alone_are_those_of_the_host(unpooled):
    ratings = ratings_of(random_matrix(70, 300, 0.3))
    given = ratings, shrunk_biases(ratings), esgd.order_of(len(ratings), 0)
    found, expected = unpooled.load(*given), host.load(*given)
    np.testing.assert_array_equal(found.users.get(), expected.users)
    np.testing.assert_array_equal(found.items.get(), expected.items)
    np.testing.assert_allclose(found.targets.get(), expected.targets, atol=1e-6)


@pytest.mark.parametrize("n_factors", [16, 128])
def test_nothing_is_lost_where_all_add_to_one_row(n_factors, device):
    """With short steps the order is next to nothing; one item has every rating, one user a fifth of them."""
    users, items = np.arange(50_000), np.zeros(50_000, dtype=np.int64)
    users, items = np.append(users, np.zeros(10_000, np.int64)), np.append(items, np.arange(1, 10_001))
    values = np.random.default_rng(0).integers(1, 6, len(users)).astype(float)
    values[:50_000] += (users[:50_000] % 2) * 3
    ratings = Ratings.from_coo(users, items, values)
    zero = Baselines(0.0, np.zeros(ratings.n_users, np.float32), np.zeros(ratings.n_items, np.float32))
    found = []
    for twin in (device, host):
        samples = twin.load(ratings, zero, esgd.order_of(len(ratings), 0))
        tables = [
            twin.load_factors(np.full((n, n_factors), 0.1, np.float32)) for n in (ratings.n_users, ratings.n_items)
        ]
        twin.learn_epoch(samples, *tables, np.float32(1e-5), DECAY, ITEM_DECAY)
        found.append([twin.fetch(table) for table in tables])
    for one, other in zip(*found, strict=True):
        change = np.abs(other - np.float32(0.1)).max()
        assert change > 0.01
        np.testing.assert_allclose(one, other, atol=0.02 * change)


def test_equal_seeds_give_nearly_equal_models(device):
    ratings = planted()
    one, other = (gpu.fit(ratings, EsgdParams(n_factors=16), backend=DEVICE) for _ in range(2))
    np.testing.assert_allclose(one.item_factors, other.item_factors, atol=0.03)


@needs_ml_1m
@pytest.mark.data
@pytest.mark.parametrize("n_factors", [16, 64, 128])
def test_both_reach_the_same_error(n_factors, device):
    users, items, values = np.loadtxt(ML_1M, delimiter=",", skiprows=1, dtype=np.int64).T
    train, test = split(Ratings.from_coo(users, items, values))
    params = EsgdParams(n_factors=n_factors)
    found, expected = (rmse_by_epoch(train, test, params, home)[-1] for home in (DEVICE, HOST))
    assert abs(found - expected) < 0.002
