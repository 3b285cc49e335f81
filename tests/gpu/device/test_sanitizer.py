"""Small half-iterations through every kernel, each array its own allocation: what compute-sanitizer watches.

    compute-sanitizer --tool memcheck --error-exitcode 9 python -m pytest -q tests/gpu/device/test_sanitizer.py
    compute-sanitizer --tool racecheck --error-exitcode 9 python -m pytest -q tests/gpu/device/test_sanitizer.py

CuPy's pool would hide what goes past the end of an array, so it is put aside.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest

from gpu.device import obstacle, plan
from tests.gpu.device.test_als import DEVICE, KINDS, on_device, on_host, start_near
from tests.gpu.test_als import assert_rows_agree, rows_of, table_of, tolerance

pytestmark = pytest.mark.gpu
LENGTHS = [0, 1, 15, 16, 17, 31, 32, 33, 64, 65, 300, 150, 2, 1, 5]  # beyond 64 in parts
N_COLUMNS = 301  # the last row of the fixed table is read too


@pytest.fixture
def als(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The device's primitives, without a memory pool, which cut short rows already."""
    if (reason := obstacle()) is not None:
        pytest.skip(reason)
    cupy = importlib.import_module("cupy")
    primitives = importlib.import_module("gpu.device.als")
    for name, value in {"LONG": 64, "CUT": 100, "PER_RANGE": 10}.items():
        monkeypatch.setattr(plan, name, value)
    cupy.cuda.set_allocator(None)
    yield primitives
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)


@pytest.mark.parametrize("ranges", [1, 3])
@pytest.mark.parametrize("n_factors", [5, 48, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_tensor_cores(kind, n_factors, ranges, als, monkeypatch):
    monkeypatch.setattr(als, "_n_ranges", lambda *_: ranges)
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
    assert_rows_agree(als.fetch(solved), on_host(rows, start, fixed, problem), (2 * median, 2 * worst))
    assert als.errors(side, solved, als.place(fixed, problem), problem, (1.0, 5.0))[0] > 0
