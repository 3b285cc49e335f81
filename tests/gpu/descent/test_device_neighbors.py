"""Residuals, masks and negatives on the device against NumPy and the host: rows of every length, every way of look-up.

Every array is an allocation of its own, so that compute-sanitizer sees what goes past its end:

    compute-sanitizer --tool memcheck --error-exitcode 9 python -m pytest -q tests/gpu/descent/test_device_neighbors.py
    compute-sanitizer --tool racecheck --error-exitcode 9 python -m pytest -q tests/gpu/descent/test_device_neighbors.py
"""

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpu.data.ratings import NO_MIDDLE, Rows
from gpu.descent import host_sgd as host

pytestmark = pytest.mark.gpu
LENGTHS = [0, 1, 2, 0, 31, 32, 33, 255, 256, 257, 5000, 700, 0]
NEIGHBORS = [1, 7, 8, 9, 16, 24, 32, 33, 100, 256]
UNWRITTEN = np.uint16(0x1234)
NOT_RATED = np.uint16(0x7FFF)
MEAN, MIDDLE = 3.6, 2.5


@pytest.fixture(autouse=True)
def near(no_pool: None) -> ModuleType:
    """The device's primitives, without a memory pool."""
    return importlib.import_module("gpu.descent.device_neighbors")


def rows_of(lengths: list[int], n_items: int, seed: int = 0) -> Rows:
    """Compact rows; entries are drawn more often the lower they are, so that rows share them."""
    generator = np.random.default_rng(seed)
    kept = np.minimum(np.array(lengths, dtype=np.int64), n_items)
    weights = 1 / (np.arange(n_items) + 10.0)
    items = [np.sort(generator.choice(n_items, n, False, weights / weights.sum())) for n in kept]
    values = generator.integers(1, 11, kept.sum()).astype(np.float32) / 2
    return Rows(np.cumsum(kept) - kept, kept, np.concatenate(items).astype(np.int32), values)


def neighbors_of(n_items: int, k: int) -> np.ndarray:
    """(N, K): low items mostly, the first and the last item, and −1."""
    generator = np.random.default_rng(k)
    found = np.minimum(generator.geometric(20 / n_items if n_items > 40 else 0.5, (n_items, k)) - 1, n_items - 1)
    found[generator.random((n_items, k)) < 0.1] = -1
    found[::3, 0], found[1::3, -1] = 0, n_items - 1
    return found.astype(np.int32)


def base_of(rows: Rows, n_items: int) -> tuple[float, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    of_users, of_items = (generator.standard_normal(n).astype(np.float32) for n in (len(rows.starts), n_items))
    return MEAN, of_users, of_items


def placed(near: ModuleType, rows: Rows) -> Any:
    to_device = importlib.import_module("gpu.cuda.arrays").to_device
    return importlib.import_module("gpu.cuda.ratings").DeviceRatings(*map(to_device, rows))


def look_up(rows: Rows, pairs: Rows, neighbors: np.ndarray, of_each: np.ndarray, missing: Any) -> np.ndarray:
    """(P, K): `of_each` (ratings,) at the rating of each pair's user of each neighbor."""
    out = np.full((len(pairs.items), neighbors.shape[1]), missing, of_each.dtype)
    for user, (start, length) in enumerate(zip(rows.starts, rows.lengths, strict=True)):
        line = np.full(len(neighbors) + 1, missing, of_each.dtype)
        line[rows.items[start : start + length]] = of_each[start : start + length]
        own = slice(pairs.starts[user], pairs.starts[user] + pairs.lengths[user])
        out[own] = line[neighbors[pairs.items[own]]]
    return out


def expected_residuals(rows: Rows, pairs: Rows, neighbors: np.ndarray, base: tuple[Any, ...]) -> np.ndarray:
    """Bits (P, KP) in the order of pairs."""
    users = np.repeat(np.arange(len(rows.starts)), rows.lengths)
    of_each = rows.values - (np.float32(base[0]) + base[1][users]) - base[2][rows.items]
    halves = np.clip(of_each, -65504, 65504).astype(np.float16).view(np.uint16)
    found = look_up(rows, pairs, neighbors, halves, NOT_RATED)
    k = neighbors.shape[1]
    return np.pad(found, ((0, 0), (0, -k % 8)), constant_values=NOT_RATED)


def expected_masks(rows: Rows, pairs: Rows, neighbors: np.ndarray, middle: float) -> np.ndarray:
    planes = [np.ones(len(rows.items), np.bool_)] + [rows.values < middle] * (middle > NO_MIDDLE)
    k = neighbors.shape[1]
    found = [np.pad(look_up(rows, pairs, neighbors, plane, False), ((0, 0), (0, -k % 8))) for plane in planes]
    bits = np.concatenate(found, axis=1)
    bits = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 32)))
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint32)


def residual_bits(
    near: ModuleType, rows: Rows, pairs: Rows, neighbors: np.ndarray, base: Any, target: np.ndarray | None, n_out: int
) -> np.ndarray:
    cupy = importlib.import_module("cupy")
    out = cupy.full((n_out, near.padded(neighbors.shape[1])), UNWRITTEN, cupy.uint16)
    given = base[0], cupy.asarray(base[1]), cupy.asarray(base[2])
    places = None if target is None else cupy.asarray(target)
    near.residuals(
        placed(near, rows), placed(near, pairs), cupy.asarray(neighbors), given, places, out.view(cupy.float16)
    )
    return out.get()


def mask_words(
    near: ModuleType, rows: Rows, pairs: Rows, neighbors: np.ndarray, target: np.ndarray | None, n_out: int,
    middle: float = NO_MIDDLE,
) -> np.ndarray:  # fmt: skip
    cupy = importlib.import_module("cupy")
    words = near.mask_words(neighbors.shape[1], middle > NO_MIDDLE)
    out = cupy.full((n_out, words), UNWRITTEN, cupy.uint32)
    places = None if target is None else cupy.asarray(target)
    near.masks(placed(near, rows), placed(near, pairs), cupy.asarray(neighbors), places, out, middle)
    return out.get()


def scattered(found: np.ndarray, target: np.ndarray, n_out: int) -> np.ndarray:
    out = np.full((n_out, found.shape[1]), UNWRITTEN, found.dtype)
    out[target] = found
    return out


def assert_both_agree(near: ModuleType, rows: Rows, pairs: Rows, neighbors: np.ndarray) -> None:
    base, n = base_of(rows, len(neighbors)), len(pairs.items)
    target = np.random.default_rng(1).permutation(n + 5)[:n].astype(np.int32)
    residuals = expected_residuals(rows, pairs, neighbors, base)
    assert np.array_equal(residual_bits(near, rows, pairs, neighbors, base, None, n), residuals)
    found = residual_bits(near, rows, pairs, neighbors, base, target, n + 5)
    assert np.array_equal(found, scattered(residuals, target, n + 5))
    for middle in (NO_MIDDLE, MIDDLE):
        masks = expected_masks(rows, pairs, neighbors, middle)
        assert np.array_equal(mask_words(near, rows, pairs, neighbors, None, n, middle), masks)
        found = mask_words(near, rows, pairs, neighbors, target, n + 5, middle)
        assert np.array_equal(found, scattered(masks, target, n + 5))


@pytest.mark.parametrize("k", NEIGHBORS)
def test_every_number_of_neighbors(k, near):
    rows, neighbors = rows_of(LENGTHS, 3000), neighbors_of(3000, k)
    assert_both_agree(near, rows, rows, neighbors)


@pytest.mark.parametrize("n_items", [1, 5, 31, 32, 1023, 1024, 18_999, 19_000, 37_999, 38_000, 65_535, 65_536])
def test_every_number_of_items(n_items, near):
    rows, neighbors = rows_of(LENGTHS, n_items), neighbors_of(n_items, 9)
    assert_both_agree(near, rows, rows, neighbors)


def test_other_pairs_than_the_ratings(near):
    rows, pairs = rows_of(LENGTHS, 3000), rows_of([5, 0, 300, 1, 0, 8, 0, 0, 1000, 3, 40, 2, 0], 3000, seed=1)
    assert_both_agree(near, rows, pairs, neighbors_of(3000, 32))


def test_more_rows_than_blocks(near):
    rows = rows_of(np.random.default_rng(5).integers(0, 20, 4000).tolist(), 200)
    assert_both_agree(near, rows, rows, neighbors_of(200, 17))


def test_a_line_that_does_not_fit(near, monkeypatch):
    monkeypatch.setattr(near, "_fits", lambda line: False)
    rows, neighbors = rows_of(LENGTHS, 3000), neighbors_of(3000, 33)
    assert_both_agree(near, rows, rows, neighbors)


@pytest.mark.parametrize("n_bits", [32, 1024])
def test_a_bitmap_that_is_only_a_hint(n_bits, near, monkeypatch):
    monkeypatch.setattr(near, "_fits", lambda line: False)
    monkeypatch.setattr(near, "MOST_BITS", n_bits)
    rows = rows_of(LENGTHS, 9000)
    assert_both_agree(near, rows, rows, neighbors_of(9000, 33))
    assert_draws_agree(near, rows, 9000, 3)


def test_more_items_than_a_line_or_a_bitmap_holds(near):
    n_items = near.MOST_BITS + 77
    rows = rows_of([3, 0, 4000, 100], n_items)
    assert_both_agree(near, rows, rows, neighbors_of(n_items, 8))
    assert_draws_agree(near, rows, n_items, 2)


def test_what_float16_cannot_hold_is_its_largest_number(near):
    rows, neighbors = rows_of([4], 6), neighbors_of(6, 8)
    rows = rows._replace(values=np.array([1e6, -1e6, 65519, 1e-9], np.float32))
    base = 0.0, np.zeros(1, np.float32), np.zeros(6, np.float32)
    found = residual_bits(near, rows, rows, neighbors, base, None, 4).view(np.float16)
    assert not np.isinf(found).any()
    assert set(found[~np.isnan(found)].tolist()) <= {65504.0, -65504.0, 0.0}
    assert np.array_equal(found.view(np.uint16), expected_residuals(rows, rows, neighbors, base))


def test_an_entry_below_zero_is_no_pair(near):
    rows, neighbors = rows_of(LENGTHS, 3000), neighbors_of(3000, 16)
    pairs = rows._replace(items=np.where(np.arange(len(rows.items)) % 3, rows.items, -1).astype(np.int32))
    base, is_pair, n = base_of(rows, 3000), pairs.items >= 0, len(rows.items)
    found = residual_bits(near, rows, pairs, neighbors, base, None, n)
    assert np.array_equal(found[is_pair], expected_residuals(rows, rows, neighbors, base)[is_pair])
    assert (found[~is_pair] == UNWRITTEN).all()
    words = mask_words(near, rows, pairs, neighbors, None, n)
    assert np.array_equal(words[is_pair], expected_masks(rows, rows, neighbors, NO_MIDDLE)[is_pair])
    assert (words[~is_pair] == UNWRITTEN).all()


def assert_draws_agree(near: ModuleType, rows: Rows, n_items: int, n_draws: int) -> None:
    cupy = importlib.import_module("cupy")
    for seed, epoch, middle in ((0, 0, NO_MIDDLE), (42, 7, NO_MIDDLE), (42, 7, MIDDLE)):
        expected = np.empty((len(rows.items), n_draws), np.int32)
        host.draw_negatives(rows, n_items, seed, epoch, np.float32(middle), expected)
        out = cupy.full(expected.shape, -7, cupy.int32)
        near.draw(placed(near, rows), n_items, seed, epoch, middle, out)
        assert np.array_equal(out.get(), expected)


@pytest.mark.parametrize("n_draws", [1, 4, 9])
@pytest.mark.parametrize("n_items", [1, 2, 33, 300, 6000])  # rows that hold everything, most, or a little of it
def test_draws_are_those_of_the_host(n_items, n_draws, near):
    assert_draws_agree(near, rows_of(LENGTHS, n_items), n_items, n_draws)


def test_samples_are_ratings_and_their_negatives(near):
    rows = rows_of(LENGTHS, 300)
    there = placed(near, rows)
    pairs, negatives = near.samples(there, 4)
    near.draw(there, 300, 1, 2, NO_MIDDLE, negatives)
    drawn = np.empty((len(rows.items), 4), np.int32)
    host.draw_negatives(rows, 300, 1, 2, np.float32(NO_MIDDLE), drawn)
    assert np.array_equal(pairs.entries.get().reshape(-1, 5), np.column_stack([rows.items, drawn]))
    assert np.array_equal(pairs.starts.get(), rows.starts * 5)
    assert np.array_equal(pairs.lengths.get(), rows.lengths * 5)


def test_nothing_is_written_without_ratings(near):
    empty = Rows(np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    nobody = Rows(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    for rows in (empty, nobody):
        assert residual_bits(near, rows, rows, neighbors_of(5, 3), base_of(rows, 5), None, 0).shape == (0, 8)
        assert mask_words(near, rows, rows, neighbors_of(5, 3), None, 0).shape == (0, 1)
        assert_draws_agree(near, rows, 5, 2)


def test_equal_inputs_give_equal_bits(near):
    rows, neighbors = rows_of([3000] * 300, 5000), neighbors_of(5000, 32)
    base, n = base_of(rows, 5000), len(rows.items)
    one, other = (residual_bits(near, rows, rows, neighbors, base, None, n) for _ in range(2))
    assert np.array_equal(one, other)
