"""Small steps of ALS, NMF and ranking through every kernel, each array its own allocation: for compute-sanitizer.

    compute-sanitizer --tool memcheck --error-exitcode 9 python -m pytest -q tests/gpu/cuda/test_sanitizer.py
    compute-sanitizer --tool racecheck --error-exitcode 9 python -m pytest -q tests/gpu/cuda/test_sanitizer.py

CuPy's pool would hide what goes past the end of an array, so it is put aside.
"""

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpu.als import device_plan as plan
from gpu.nmf import device_parts as hals_parts
from gpu.ranking.item_index import ItemIndex
from tests import reference
from tests.gpu.als.test_device import DEVICE, KINDS, on_device, on_host, start_near
from tests.gpu.als.test_trainer import assert_rows_agree, rows_of, table_of, tolerance
from tests.gpu.nmf.test_trainer import matrix_of, sparse
from tests.gpu.ranking import test_device_topn as test_topn

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("no_pool")]
LENGTHS = [0, 1, 15, 16, 17, 31, 32, 33, 64, 65, 300, 150, 2, 1, 5]  # beyond 64 in parts
N_COLUMNS = 301  # the last row of the fixed table is read too


@pytest.fixture
def als(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The device's primitives, which cut short rows already."""
    for name, value in {"LONG": 64, "CUT": 100, "PER_RANGE": 10}.items():
        monkeypatch.setattr(plan, name, value)
    return importlib.import_module("gpu.als.device")


@pytest.fixture
def hals(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The device's primitives, with rows of more than 8 entries in parts, and several blocks of a few rows."""
    primitives = importlib.import_module("gpu.nmf.device")
    monkeypatch.setattr(hals_parts, "LONGEST", (8, 8))
    monkeypatch.setattr(importlib.import_module("gpu.nmf.device_sweeps"), "LEAST_ROWS", 32)
    return primitives


@pytest.mark.parametrize("ranges", [1, 3])
@pytest.mark.parametrize("n_factors", [5, 48, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_tensor_cores(kind, n_factors, ranges, als, monkeypatch):
    monkeypatch.setattr(als, "n_ranges", lambda *_: ranges)
    assert_agrees(als, kind, n_factors, "float16", "cg")


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
@pytest.mark.parametrize("n_factors", [5, 48])
@pytest.mark.parametrize("kind", KINDS)
def test_plain(kind, n_factors, solver, als):
    assert_agrees(als, kind, n_factors, "float32", solver)


def assert_agrees(als: ModuleType, kind: str, n_factors: int, precision: str, solver: str) -> None:
    """One half-iteration as on the host, and its errors."""
    problem = KINDS[kind]._replace(n_factors=n_factors, precision=precision, solver=solver)
    rows, fixed = rows_of(LENGTHS, N_COLUMNS), table_of(N_COLUMNS, problem)
    start = start_near(rows, fixed, problem)
    side, solved = on_device(als, rows, start, fixed, problem)
    median, worst = tolerance(DEVICE, problem)
    exact = on_host(rows, start, fixed, problem._replace(solver="cholesky"))
    assert_rows_agree(als.fetch(solved), on_host(rows, start, fixed, problem), (2 * median, 2 * worst), exact)
    assert als.errors(side, solved, als.load(fixed, problem), problem, (1.0, 5.0))[0] > 0


@pytest.mark.parametrize("form", [np.asarray, sparse])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("in_shared", [True, False])
@pytest.mark.parametrize(("n_factors", "tile"), [(11, 0), (11, 3), (130, 11), (40, 40)])
def test_nmf(n_factors, tile, in_shared, dtype, form, hals, monkeypatch):
    """An H step and a W step as the oracle has them, and the sums of the error."""
    if not in_shared:
        monkeypatch.setattr(importlib.import_module("gpu.nmf.device_sweeps"), "_fits", lambda _: False)
    matrix, generator = matrix_of(517, 71, 0.3), np.random.default_rng(0)
    W, H = generator.random((517, n_factors)), generator.random((71, n_factors))
    W /= np.linalg.norm(W, axis=0)
    placed, rows, columns = (
        hals.load(form(matrix), dtype),
        hals.load_factors(W.astype(dtype), tile),
        hals.load_factors(H.astype(dtype), tile),
    )
    solve(hals, placed, columns, rows, tile)
    inner = hals.inner(columns)
    solve(hals, placed, rows, columns, tile)
    expected_H = reference.hals_step_of_h(matrix, W, H.T)
    expected_W = reference.hals_step_of_w(matrix, W, expected_H)
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    np.testing.assert_allclose(hals.fetch(columns), expected_H.T, atol=tolerance * expected_H.max())
    np.testing.assert_allclose(hals.fetch(rows), expected_W, atol=tolerance * expected_W.max())
    assert inner == pytest.approx(np.sum((matrix.T @ W) * expected_H.T), rel=1e-4)
    assert hals.squares(placed) == pytest.approx(np.sum(matrix**2))


def solve(hals: ModuleType, matrix: Any, solved: Any, fixed: Any, tile: int) -> None:
    """The step of `solved`: W is the side of more rows."""
    is_W = solved.columns.shape[1] > fixed.columns.shape[1]
    hals.multiply(matrix, is_W, fixed, solved)
    hals.sweep(solved, hals.gram(fixed), tile=tile, normalize=is_W)


@pytest.mark.parametrize("kind", [test_topn.PLAIN, test_topn.NEAR])
@pytest.mark.parametrize(("n_users", "n_items", "n_factors"), [(3, 33, 20), (3, 6001, 20), (20, 6001, 70)])
def test_ranking(n_users, n_items, n_factors, kind):
    """Few items, the scan for few and for many users, candidates, sorted scores; hidden, refreshed and gained items."""
    model, rows = test_topn.model_of(kind, n_users, n_items, n_factors), test_topn.rated(n_users, n_items, 20)
    test_topn.assert_right(model, rows, 12)
    index = ItemIndex(model, test_topn.DEVICE)
    index.hide(np.arange(n_items) % 3 == 0)
    candidates = [None, *[np.arange(30)] * (n_users - 1)]
    items, _ = test_topn.ask(index, rows, 1000, candidates=candidates, exclude=[np.arange(5)] * n_users, offset=50)
    assert (items[items >= 0] % 3 != 0).all()
    model.grow(n_users, n_items + 70)
    index.refresh(np.arange(n_items - 2, n_items + 3))
    assert (test_topn.ask(index, rows, 12)[0] >= 0).all()
