"""simLSH on the device: Ψ, sums and signatures against the oracle and the host, integer for integer.

Every array is an allocation of its own, so that compute-sanitizer sees what goes past its end:

    compute-sanitizer --tool memcheck --error-exitcode 9 python -m pytest -q tests/gpu/hashing/test_device_lsh.py
    compute-sanitizer --tool racecheck --error-exitcode 9 python -m pytest -q tests/gpu/hashing/test_device_lsh.py
"""

import importlib
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest

from gpu.base.backend import Backend
from gpu.cuda import kernels
from gpu.data.baselines import baselines
from gpu.data.ratings import NO_MIDDLE, Ratings
from gpu.descent.params import CulshImplicitParams, CulshParams
from gpu.hashing import host_lsh as host
from gpu.hashing import simlsh
from gpu.hashing.fixed_point import PSI_LIMIT
from gpu.hashing.params import Psi
from tests import reference

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
# Around groups of 32 users, steps of 256 and pieces of 8,192; columns begin at every place of a word of four weights.
LENGTHS = [0, 1, 2, 31, 32, 33, 255, 256, 257, 0, 513, 700, 8191, 8192, 8193, 20_001, 3]
BITS = [64, 128, 448, 2432, 2496, 5000]  # one half-word a warp, odd numbers of words, one slice, two, three


@pytest.fixture(autouse=True)
def lsh(no_pool: None) -> ModuleType:
    """The device's primitives, without a memory pool."""
    return importlib.import_module("gpu.hashing.device_lsh")


def ratings_of(lengths: list[int], n_users: int = 20_001, seed: int = 0) -> Ratings:
    """Columns of these lengths by users with random keys, in half stars."""
    generator = np.random.default_rng(seed)
    users = np.concatenate([generator.choice(n_users, n, replace=False) for n in lengths])
    items = np.repeat(np.arange(len(lengths)), lengths)
    keys = generator.integers(0, 2**64, n_users, dtype=np.uint64)
    values = generator.integers(1, 11, len(users)) / 2
    return Ratings.from_coo(users, items, values, (n_users, len(lengths)), keys)


def params_of(n_bits: int = 128, psi: str = "residual") -> CulshParams:
    return CulshParams(n_bits=n_bits, psi=psi, seed=9)  # type: ignore[arg-type]


def test_sums_are_those_of_the_definition(lsh):
    ratings, params = ratings_of([3, 0, 40, 1], 50), params_of()
    known = baselines(ratings)
    weights = host.weights(ratings, known, params).tolist()
    columns = ratings.by_item
    owner = np.repeat(np.arange(4), columns.lengths)
    keys = ratings.user_keys[columns.items].tolist()
    expected = reference.projection_sums(zip(keys, owner, weights, strict=True), 4, 128, params.seed)
    found: Any = simlsh.projections(ratings, known, params, DEVICE)
    np.testing.assert_array_equal(found.get(), expected)


@pytest.mark.parametrize("n_bits", BITS)
def test_sums_and_signatures_equal_the_hosts(n_bits, lsh):
    ratings, params = ratings_of(LENGTHS), params_of(n_bits)
    known = baselines(ratings)
    sums: Any = simlsh.projections(ratings, known, params, DEVICE)
    expected = simlsh.projections(ratings, known, params)
    np.testing.assert_array_equal(sums.get(), expected)
    packed: Any = simlsh.signatures(sums, DEVICE)
    np.testing.assert_array_equal(packed.get(), simlsh.signatures(expected))


def test_devices_without_products_of_bits_find_the_same(lsh, monkeypatch):
    options = kernels.options
    monkeypatch.setattr(kernels, "options", lambda defines: (*options(defines), "-DEMULATED"))
    test_sums_and_signatures_equal_the_hosts(448, lsh)


@pytest.mark.parametrize("weight", [-127, -1, 0, 1, 127])
def test_every_weight_is_counted(weight, lsh):
    cupy = importlib.import_module("cupy")
    ratings = ratings_of([300, 1, 8200])
    weights = np.full(len(ratings), weight, dtype=np.int8)
    placed = cupy.full(-(-len(ratings) // 4) * 4, weight, dtype=cupy.int8)
    expected = simlsh.weighted_sums(ratings, weights, 2, 0)
    found: Any = simlsh.weighted_sums(ratings, placed, 2, 0, DEVICE)
    np.testing.assert_array_equal(found.get(), expected)


@pytest.mark.parametrize("middle", [NO_MIDDLE, 2.5])
@pytest.mark.parametrize("params", [*(params_of(psi=psi) for psi in get_args(Psi)), CulshImplicitParams()])
def test_psi_equals_the_hosts(params, middle, lsh):
    ratings = ratings_of(LENGTHS)
    known = baselines(ratings)._replace(middle=middle)
    found = lsh.weights(ratings, known, params).get()[: len(ratings)]
    np.testing.assert_array_equal(found, host.weights(ratings, known, params))
    found = lsh.cosine_weights(ratings).get()[: len(ratings)]
    np.testing.assert_array_equal(found, host.cosine_weights(ratings))


def test_psi_saturates(lsh):
    users = np.arange(9)
    ratings = Ratings.from_coo(users, users % 2, np.array([1, 5, 1e6, -1e6, 3, 1, 1, 1, 1.0]))
    known = baselines(ratings)._replace(mean=4e6)
    found = lsh.weights(ratings, known, params_of()).get()[:9]
    np.testing.assert_array_equal(found, host.weights(ratings, known, params_of()))
    assert found.min() == -PSI_LIMIT


def test_baselines_equal_the_hosts(lsh):
    ratings = ratings_of(LENGTHS)
    found, expected = lsh.baselines(ratings), baselines(ratings)
    assert found.mean == expected.mean
    np.testing.assert_array_equal(found.user.get(), expected.user)
    np.testing.assert_array_equal(found.item.get(), expected.item)


def test_no_ratings_are_sums_of_zero(lsh):
    nothing = np.zeros(0, np.int64)
    for shape in ((0, 0), (3, 4)):
        ratings = Ratings.from_coo(nothing, nothing, nothing.astype(float), shape)
        known = lsh.baselines(ratings)
        assert known.mean == 0.0
        sums = simlsh.projections(ratings, known, params_of(), DEVICE)
        assert sums.shape == (shape[1], 128)
        assert not sums.any()


@pytest.mark.parametrize("n_bits", [64, 2432])
def test_updates_add_and_take_away(n_bits, lsh):
    cupy = importlib.import_module("cupy")
    generator = np.random.default_rng(3)
    items, keys = generator.integers(0, 5, 300), generator.integers(0, 2**64, 300, dtype=np.uint64)
    weights = generator.integers(-254, 255, 300).astype(np.int32)
    expected = np.zeros((5, n_bits), dtype=np.int32)
    simlsh.update(expected, items, keys, weights, 7)
    sums = cupy.zeros((5, n_bits), dtype=cupy.int32)
    changes = tuple(cupy.asarray(array) for array in (items, keys, weights))
    simlsh.update(sums, changes[0], changes[1], changes[2], 7, DEVICE)
    np.testing.assert_array_equal(sums.get(), expected)
    simlsh.update(sums, changes[0], changes[1], -changes[2], 7, DEVICE)
    assert not sums.any()
    simlsh.update(sums, changes[0][:0], changes[1][:0], changes[2][:0], 7, DEVICE)


def test_only_requested_signatures_are_refreshed(lsh):
    cupy = importlib.import_module("cupy")
    sums = cupy.full((4, 64), -1, dtype=cupy.int32)
    packed = cupy.full((4, 1), 5, dtype=cupy.uint64)
    simlsh.refresh(packed, sums, cupy.asarray([2, 0]), DEVICE)
    assert packed.get().ravel().tolist() == [0, 5, 0, 5]


def test_slices_hold_every_half_word_once(lsh):
    for n_halves in range(2, 513, 2):
        parts = lsh.slices(n_halves)
        assert [first for first, _ in parts] == [0, *np.cumsum([count for _, count in parts])[:-1]]
        assert sum(count for _, count in parts) == n_halves
        assert all(0 < count <= lsh.MOST_HALVES and count % 2 == 0 for _, count in parts)
