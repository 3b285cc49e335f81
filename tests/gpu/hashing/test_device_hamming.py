"""Ranking by agreement on the device against its twin on the host, list for list.

Every array is an allocation of its own, so that compute-sanitizer sees what goes past its end:

    compute-sanitizer --tool memcheck --error-exitcode 9 python -m pytest -q tests/gpu/hashing/test_device_hamming.py
    compute-sanitizer --tool racecheck --error-exitcode 9 python -m pytest -q tests/gpu/hashing/test_device_hamming.py
"""

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpu.base.backend import Backend
from gpu.hashing import simlsh
from tests import reference
from tests.gpu.hashing.test_simlsh import planted, unpacked

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")


@pytest.fixture(autouse=True)
def hamming(no_pool: None) -> ModuleType:
    """The device's primitives, without a memory pool."""
    return importlib.import_module("gpu.hashing.device_hamming")


def placed(*arrays: np.ndarray) -> tuple[Any, ...]:
    cupy = importlib.import_module("cupy")
    return tuple(cupy.asarray(array) for array in arrays)


def signatures(n: int, n_words: int, seed: int = 0) -> np.ndarray:
    """Few bits vary, so that many agree in as many."""
    generator = np.random.default_rng(seed)
    packed = generator.integers(0, 2**64, (1, n_words), dtype=np.uint64).repeat(n, axis=0)
    packed[:, 0] ^= generator.integers(0, 64, n, dtype=np.uint64)
    packed[:, -1] ^= generator.integers(0, 4, n, dtype=np.uint64) << np.uint64(62)
    return packed


def assert_lists_equal(packed: np.ndarray, counts: np.ndarray, k: int, queries: np.ndarray | None = None) -> None:
    keys = np.arange(1000, 1000 + len(packed), dtype=np.uint64)
    expected = simlsh.top_k(packed, counts, k, 3, keys, queries)
    rows = None if queries is None else placed(queries)[0]
    on_device = placed(packed, counts, keys)
    found: Any = simlsh.top_k(on_device[0], on_device[1], k, 3, on_device[2], rows, DEVICE)
    np.testing.assert_array_equal(found.neighbors.get(), expected.neighbors)
    assert found.filled == expected.filled


@pytest.mark.parametrize(
    ("n", "n_words", "k"),
    [(1, 1, 4), (2, 3, 1), (127, 2, 5), (128, 20, 32), (129, 21, 33), (300, 38, 32), (500, 41, 100), (1300, 1, 1024)],
)
def test_all_pairs_are_ranked_as_on_the_host(n, n_words, k, hamming):
    counts = np.random.default_rng(n).integers(0, 3, n)
    assert_lists_equal(signatures(n, n_words), counts, k)
    assert_lists_equal(signatures(n, n_words), counts, k, np.array([n - 1, 0, n // 2, 0]))
    random = np.random.default_rng(1).integers(0, 2**64, (n, n_words), dtype=np.uint64)
    assert_lists_equal(random, np.ones(n, np.int64), k)


def test_neighbors_are_those_of_the_definition(hamming):
    packed, counts = signatures(60, 2), np.random.default_rng(0).integers(0, 2, 60)
    on_device = placed(packed, counts, np.zeros(60, np.uint64))
    lists: Any = simlsh.top_k(on_device[0], on_device[1], 7, 0, on_device[2], backend=DEVICE).neighbors
    found = lists.get()
    for item in range(60):
        assert found[item][found[item] >= 0].tolist() == reference.most_agreeing(unpacked(packed), counts, item, 7)


def test_batches_of_queries_change_nothing(hamming, monkeypatch):
    monkeypatch.setattr(hamming, "AT_ONCE_BYTES", 1)
    assert_lists_equal(signatures(700, 5), np.ones(700, np.int64), 9)


def test_nothing_to_rank(hamming):
    none = np.zeros(0, np.int64)
    assert_lists_equal(np.zeros((0, 2), np.uint64), none, 3)
    assert_lists_equal(signatures(5, 2), np.zeros(5, np.int64), 3)
    assert_lists_equal(signatures(5, 2), np.ones(5, np.int64), 0)
    assert_lists_equal(signatures(5, 2), np.ones(5, np.int64), 3, none)


@pytest.mark.parametrize("k", [1, 11, 40])
def test_bucket_mates_are_ranked_as_on_the_host(k, hamming, monkeypatch):
    monkeypatch.setattr(simlsh, "ALL_PAIRS_LIMIT", 0)
    packed = planted(n_groups=60, per_group=12, flipped=0.12)
    counts = np.random.default_rng(0).integers(0, 4, len(packed))
    assert_lists_equal(packed, counts, k)


def test_a_bucket_of_equal_signatures(hamming, monkeypatch):
    monkeypatch.setattr(simlsh, "ALL_PAIRS_LIMIT", 0)
    assert_lists_equal(np.zeros((500, 3), np.uint64), np.ones(500, np.int64), 4)


def test_slots_that_no_bucket_fills_are_drawn_as_on_the_host(hamming, monkeypatch):
    monkeypatch.setattr(simlsh, "ALL_PAIRS_LIMIT", 0)
    monkeypatch.setattr(simlsh, "BUCKET_SIZE", 0.001)
    packed = np.random.default_rng(1).integers(0, 2**64, (40, 1), dtype=np.uint64)
    assert_lists_equal(packed, np.ones(40, np.int64), 5)
    assert_lists_equal(packed[:3], np.ones(3, np.int64), 5)


@pytest.mark.parametrize("k", [1, 5, 40])
def test_the_same_lists_are_outdated_as_on_the_host(k, hamming):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        packed, counts = rng.integers(0, 16, (50, 2), dtype=np.uint64), rng.integers(0, 3, 50)
        lists = simlsh.top_k(packed, counts, k, 0, np.arange(50, dtype=np.uint64)).neighbors
        changed, owners = rng.choice(50, 1 + 40 * (seed % 2), replace=False), np.arange(3, 50)
        packed[changed] = rng.integers(0, 16, (len(changed), 2), dtype=np.uint64)
        expected = simlsh.outdated(lists[owners], owners, changed, packed, counts)
        on_device: tuple[Any, ...] = *placed(lists[owners], owners, changed, packed, counts), DEVICE
        found: Any = simlsh.outdated(*on_device)
        np.testing.assert_array_equal(found.get(), expected)
