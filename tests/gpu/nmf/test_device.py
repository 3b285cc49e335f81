"""NMF on the device against its twin on the host: tiles, sizes and edges, equal bits, one primitive at a time."""

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpu.base.backend import HOST, Backend
from gpu.data.ratings import Ratings
from gpu.nmf import host
from gpu.nmf import trainer as nmf
from gpu.nmf.params import NmfParams
from tests.gpu.nmf.test_trainer import matrix_of, sparse, tiled

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse])


@pytest.fixture(autouse=True)
def hals() -> ModuleType:
    """The device's primitives."""
    return importlib.import_module("gpu.nmf.device")


def tables(n_rows: int, n_columns: int, k: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(n_rows)
    W, H = generator.random((n_rows, k)), generator.random((n_columns, k))
    return (W / np.linalg.norm(W, axis=0)).astype(dtype), H.astype(dtype)


def both_steps(
    primitives: ModuleType, matrix: Any, W: np.ndarray, H: np.ndarray, tile: int
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """(W, Hᵀ, ⟨R, Hᵀ⟩, ⟨S, Q⟩) after an H step and a W step."""
    placed = primitives.load(matrix, W.dtype.type)
    rows, columns = primitives.load_factors(W, tile), primitives.load_factors(H, tile)
    S = primitives.gram(rows)
    primitives.multiply(placed, False, rows, columns)
    primitives.sweep(columns, S, tile=tile, normalize=False)
    Q = primitives.gram(columns)
    inner, whole = primitives.inner(columns), primitives.sum_of_products(S, Q)
    primitives.multiply(placed, True, columns, rows)
    primitives.sweep(rows, Q, tile=tile, normalize=True)
    primitives.finish()
    return primitives.fetch(rows), primitives.fetch(columns), inner, whole


def assert_twins(hals: ModuleType, matrix: Any, tables_: tuple[np.ndarray, np.ndarray], tile: int) -> None:
    found, expected = (both_steps(twin, matrix, *tables_, tile) for twin in (hals, host))
    tolerance = 1e-9 if tables_[0].dtype == np.float64 else 2e-3
    for one, other in zip(found[:2], expected[:2], strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.flags.c_contiguous
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * other.max())
    assert found[2:] == pytest.approx(expected[2:], rel=1e-9 if tolerance < 1e-6 else 1e-5)


@PRECISIONS
@FORMS
@pytest.mark.parametrize("tile", [0, 1, 3, 7, 8, 11])
def test_tiles(hals, tile, form, dtype):
    matrix = matrix_of(1023, 257, 0.2)
    assert_twins(hals, form(matrix), tables(1023, 257, 11, dtype), tile)


@PRECISIONS
@FORMS
@pytest.mark.parametrize(
    ("n_rows", "n_columns", "k", "tile"),
    [(1, 1, 1, 1), (1, 40, 3, 2), (40, 1, 3, 3), (5, 7, 40, 6), (33, 31, 1, 1), (129, 4097, 65, 8), (90, 40, 130, 130)],
)
def test_sizes(hals, n_rows, n_columns, k, tile, form, dtype):
    matrix = matrix_of(n_rows, n_columns, 0.5) + np.eye(n_rows, n_columns)
    assert_twins(hals, form(matrix), tables(n_rows, n_columns, k, dtype), tile)


@PRECISIONS
def test_many_factors_in_one_tile(hals, dtype):
    matrix = matrix_of(600, 90, 0.3)
    assert_twins(hals, sparse(matrix), tables(600, 90, 1024, dtype), 1024)


def exact_steps(primitives: ModuleType, matrix: Any, W: np.ndarray, H: np.ndarray, tile: int) -> list[np.ndarray]:
    """W and Hᵀ after exact steps and a move of W, what W moved from, and the factors that came back."""
    placed = primitives.load(matrix, W.dtype.type)
    rows, columns = primitives.load_factors(W, tile), primitives.load_factors(H, tile)
    last, kept = primitives.copy_of(rows), primitives.copy_of(columns)
    primitives.multiply(placed, True, columns, rows)
    primitives.sweep_exactly(rows, primitives.gram(columns), tile=tile)
    primitives.extrapolate(rows, last, 0.7)
    primitives.multiply(placed, False, rows, columns)
    primitives.sweep_exactly(columns, primitives.gram(rows), tile=tile)
    found = [primitives.fetch(rows).copy(), primitives.fetch(columns).copy(), primitives.fetch_copy(rows, last)]
    inner = primitives.inner(columns)
    primitives.put(kept, columns)
    primitives.keep(rows, last)
    primitives.finish()
    return [*found, np.array(inner), primitives.fetch(columns), primitives.fetch_copy(rows, last)]


@PRECISIONS
@FORMS
@pytest.mark.parametrize(("tile", "k"), [(1, 11), (3, 11), (8, 65), (11, 11)])
def test_exact_steps_and_moves(hals, tile, k, form, dtype):
    matrix, given = form(matrix_of(1023, 257, 0.2)), tables(1023, 257, k, dtype)
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    for one, other in zip(*(exact_steps(twin, matrix, *given, tile) for twin in (hals, host)), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.max(other))


def tall(n_rows: int, n_columns: int, per_row: int, popular: int = 0) -> Ratings:
    """Rows of random columns; the first column has the first `popular` rows."""
    generator = np.random.default_rng(n_columns)
    rows = np.concatenate([np.repeat(np.arange(n_rows), per_row), np.arange(popular)])
    columns = np.concatenate([generator.integers(0, n_columns, n_rows * per_row), np.zeros(popular, np.int64)])
    return Ratings.from_coo(rows, columns, generator.integers(1, 6, len(rows)).astype(float), (n_rows, n_columns))


@PRECISIONS
@pytest.mark.parametrize("tile", [1, 5, 20])
def test_every_block_of_the_grid_and_rows_in_parts(hals, tile, dtype):
    """More rows than threads; a column in hundreds of parts; changes beyond shared memory for the largest tile."""
    matrix = tall(300_000, 70, 3, 100_000)
    assert_twins(hals, matrix, tables(300_000, 70, 20, dtype), tile)


@PRECISIONS
@FORMS
def test_products_of_any_sign_and_squares(hals, form, dtype):
    matrix = matrix_of(70, 300, 0.3)
    placed = hals.load(form(matrix), dtype)
    W, H = (table - dtype(0.5) for table in tables(70, 300, 5, dtype))
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(hals.product(placed, True, H), matrix @ H, atol=tolerance * 1e2)
    np.testing.assert_allclose(hals.product(placed, False, W), matrix.T @ W, atol=tolerance * 1e2)
    assert hals.squares(placed) == pytest.approx(np.sum(matrix**2))


@PRECISIONS
@pytest.mark.parametrize("n", [1, 4095, 4097, 100_000])
def test_gram(hals, n, dtype):
    table, _ = tables(n, 1, 19, dtype)
    found = hals.gram(hals.load_factors(table, 4)).get()
    exact = table.astype(np.float64).T @ table
    np.testing.assert_allclose(found, exact, rtol=1e-12 if dtype == np.float64 else 1e-5)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@FORMS
@pytest.mark.parametrize("tile", [1, 3, 7, 8, 11])
@pytest.mark.parametrize("solver", ["extrapolated", "tiled"])
def test_whole_runs(tile, form, precision, solver):
    for n_epochs in (1, 10):
        params = tiled(tile, n_epochs, precision=precision, solver=solver)
        found, expected = (nmf.factorize(form(matrix_of(700, 300)), params, home) for home in (DEVICE, HOST))
        tolerance = 1e-9 if precision == "float64" else 5e-3
        np.testing.assert_allclose(found.W, expected.W, atol=tolerance * expected.W.max())
        np.testing.assert_allclose(found.H, expected.H, atol=tolerance * expected.H.max())
        assert found.relative_error == pytest.approx(expected.relative_error, rel=1e-5)


@pytest.mark.parametrize("solver", ["extrapolated", "plain", "tiled"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_equal_runs_give_equal_bits(solver, precision):
    params = NmfParams(n_factors=20, n_epochs=10, tolerance=0, solver=solver, precision=precision)
    one, other = (nmf.factorize(tall(100_000, 500, 5, 30_000), params, DEVICE) for _ in range(2))
    np.testing.assert_array_equal(one.W, other.W)
    np.testing.assert_array_equal(one.H, other.H)


def test_an_overflow_is_not_hidden(hals):
    """A product that is not a number stays so, that training can say that it diverged."""
    W, H = tables(300, 20, 4, np.float32)
    side = hals.load_factors(W, 2)
    side.products[1, 7] = np.nan
    hals.sweep(side, hals.gram(hals.load_factors(H, 2)), tile=2, normalize=True)
    assert np.isnan(hals.fetch(side)).any()


@pytest.mark.parametrize("is_exact", [False, True])
def test_memory_is_counted(hals, is_exact):
    cupy = importlib.import_module("cupy")
    matrix, k, tile = tall(200_000, 3000, 10, 50_000), 50, 7
    W, H = tables(200_000, 3000, k, np.float32)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    steps, n_copied = (exact_steps, 203_000) if is_exact else (both_steps, 0)
    steps(hals, matrix, W, H, tile)
    needed = hals.bytes_needed((200_000, 3000), 203_000, len(matrix), 0, k, tile, 4, n_copied)
    assert pool.total_bytes() - before <= needed
    assert needed <= 2 * (pool.total_bytes() - before) + hals.WORKSPACE
