"""ALS on the device against its twin on the host: rows of every length, poisoned memory, equal bits, true estimates."""

import importlib
import os
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpu.als import host
from gpu.als.objective import AlsObjective, Extent, width
from gpu.base.backend import Backend
from gpu.base.device import free_bytes
from gpu.base.errors import InvalidParams
from gpu.data.ratings import Rows
from tests.gpu.als.test_trainer import (
    EXPLICIT,
    IMPLICIT,
    UNCENTERED,
    assert_rows_agree,
    rows_of,
    signed,
    table_of,
    tolerance,
)

pytestmark = pytest.mark.gpu
LENGTHS = [0, 1, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 4096, 8192, 8193, 200_000]
N_COLUMNS = 200_000
DEVICE = Backend("device", "under test")
KINDS = {"biases": EXPLICIT, "uncentered": UNCENTERED, "implicit": IMPLICIT, "signed": IMPLICIT}
FACTORS = [4, 5, 16, 31, 32, 64, 100, 128, 200, 256]
OTHERS = "uncentered", "implicit", "signed"
CASES = [("biases", n) for n in FACTORS] + [(kind, n) for kind in OTHERS for n in (5, 32, 100, 128)]
CASES += [("uncentered", 150), ("uncentered", 256), ("biases", 201)]  # of Hopper's kernel; its biases need whole pieces
CASES += [(kind, n) for kind in ("biases", *OTHERS) for n in (257, 512)]  # in blocks
PRECISIONS = pytest.mark.parametrize("precision", ["float32", "float16"])
SOLVERS = pytest.mark.parametrize("solver", ["cg", "cholesky"])


@pytest.fixture(scope="module")
def als() -> ModuleType:
    """The device's primitives."""
    return importlib.import_module("gpu.als.device")


def start_near(rows: Rows, fixed: np.ndarray, problem: AlsObjective) -> np.ndarray:
    """Half of the exact solution, as the host finds it, and noise."""
    side = host.prepare(rows, len(fixed), problem)
    exact = np.zeros((len(rows.starts), width(problem)), dtype=np.float32)
    host.solve(side, exact, fixed, problem._replace(solver="cholesky"))
    noise = np.random.default_rng(2).standard_normal(exact.shape).astype(np.float32)
    return exact + 0.5 * noise * np.linalg.norm(exact, axis=1, keepdims=True) * np.float32(width(problem) ** -0.5)


def on_host(rows: Rows, start: np.ndarray, fixed: np.ndarray, problem: AlsObjective) -> np.ndarray:
    solved = start.copy()
    host.solve(host.prepare(rows, len(fixed), problem), solved, fixed, problem)
    return solved


def on_device(
    als: ModuleType, rows: Rows, start: np.ndarray, fixed: np.ndarray, problem: AlsObjective
) -> tuple[Any, Any]:
    """(side, solved table) after one half-iteration; whatever a kernel has to write is NaN before."""
    side = als.prepare(rows, len(fixed), problem)
    solved, still = als.load(start, problem), als.load(fixed, problem)
    side.slots.fill(255)
    if solved.halves is not None:
        solved.halves.fill(np.nan)
    als.solve(side, solved, still, problem)
    als.finish()
    return side, solved


def case(
    kind: str, n_factors: int, lengths: list[int], n_columns: int
) -> tuple[AlsObjective, Rows, np.ndarray, np.ndarray]:
    problem = KINDS[kind]._replace(n_factors=n_factors)
    rows, fixed = rows_of(lengths, n_columns), table_of(n_columns, problem)
    rows = signed(rows) if kind == "signed" else rows
    return problem, rows, fixed, start_near(rows, fixed, problem)


@PRECISIONS
@pytest.mark.parametrize(("kind", "n_factors"), CASES)
def test_rows_of_every_length_agree_with_the_host(kind, n_factors, precision, als):
    problem, rows, fixed, start = case(kind, n_factors, LENGTHS, N_COLUMNS)
    problem = problem._replace(precision=precision)
    _, solved = on_device(als, rows, start, fixed, problem)
    median, worst = tolerance(DEVICE, problem)
    allowed = (2 * median, 2 * worst)  # the host rounds too
    exact = on_host(rows, start, fixed, problem._replace(solver="cholesky"))
    assert_rows_agree(als.fetch(solved), on_host(rows, start, fixed, problem), allowed, exact)


@pytest.mark.parametrize("n_factors", FACTORS)
def test_exact_solutions_agree_with_the_host(n_factors, als):
    problem, rows, fixed, start = case("biases", n_factors, LENGTHS[:13], 5000)
    problem = problem._replace(solver="cholesky")
    _, solved = on_device(als, rows, start, fixed, problem)
    assert_rows_agree(als.fetch(solved), on_host(rows, start, fixed, problem), (2e-5, 1e-4))


@pytest.mark.parametrize("kind", KINDS)
def test_the_form_that_tensor_cores_read_is_kept_up(kind, als):
    problem, rows, fixed, start = case(kind, 20, LENGTHS[:13], 5000)
    problem = problem._replace(precision="float16")
    _, solved = on_device(als, rows, start, fixed, problem)
    if solved.halves is None:
        pytest.skip("no tensor cores are used on this device")
    arrays = importlib.import_module("gpu.als.device_sides")
    rated = rows.lengths > 0
    expected = arrays.halves_of(solved.values, problem).get()
    used = problem.n_factors + 3 * problem.biases
    assert np.array_equal(solved.halves.get()[rated, :used], expected[rated, :used])


@pytest.mark.parametrize("kind", ["uncentered", "biases"])
def test_the_form_that_hoppers_tensor_cores_read_is_kept_up(kind, als):
    problem, rows, fixed, start = case(kind, 192, LENGTHS[:13], 5000)
    problem = problem._replace(precision="float16")
    if importlib.import_module("gpu.als.device_wide").fits(problem):
        _, solved = on_device(als, rows, start, fixed, problem)
        expected, used = als.arrays.halves_of(solved.values, problem).get(), 192 + 3 * problem.biases
        assert np.array_equal(solved.halves.get()[rows.lengths > 0, :used], expected[rows.lengths > 0, :used])


@pytest.mark.parametrize("kind", KINDS)
def test_the_form_of_blocks_is_kept_up(kind, als):
    problem, rows, fixed, start = case(kind, 300, LENGTHS[:13], 5000)
    _, solved = on_device(als, rows, start, fixed, problem._replace(precision="float16"))
    if solved.halves is None:
        pytest.skip("no tensor cores are used on this device")
    rated = rows.lengths > 0
    values = solved.values.get().reshape(len(rated), -1, als.arrays.BLOCK).transpose(1, 0, 2)
    assert np.array_equal(solved.halves.get()[:, rated], values[:, rated].astype(np.float16))
    assert not solved.values[:, 300:].any()


@PRECISIONS
@SOLVERS
@pytest.mark.parametrize(("kind", "n_factors"), [*((kind, 32) for kind in KINDS), ("biases", 192), ("biases", 300)])
def test_equal_inputs_give_equal_bits(kind, n_factors, solver, precision, als):
    if n_factors > 256 and solver == "cholesky":
        pytest.skip("refused")
    problem, rows, fixed, start = case(kind, n_factors, LENGTHS, N_COLUMNS)
    problem = problem._replace(precision=precision, solver=solver)
    runs = [als.fetch(on_device(als, rows, start, fixed, problem)[1]) for _ in range(3)]
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])


@PRECISIONS
def test_ranges_of_the_fixed_side_change_only_rounding(precision, als, monkeypatch):
    problem, rows, fixed, start = case("biases", 16, LENGTHS, N_COLUMNS)
    problem = problem._replace(precision=precision)
    monkeypatch.setattr(als, "n_ranges", lambda *_: 5)
    _, solved = on_device(als, rows, start, fixed, problem)
    median, worst = tolerance(DEVICE, problem)
    assert_rows_agree(als.fetch(solved), on_host(rows, start, fixed, problem), (2 * median, 2 * worst))


def test_batches_change_nothing(als, monkeypatch):
    problem, rows, fixed, start = case("biases", 16, LENGTHS, N_COLUMNS)
    whole = als.fetch(on_device(als, rows, start, fixed, problem)[1])
    tiling = importlib.import_module("gpu.als.device_tiling")
    monkeypatch.setattr(tiling, "BATCH_BYTES", 0)
    monkeypatch.setattr(tiling, "MAX_PARTS", 25)  # the longest row's parts
    assert np.array_equal(als.fetch(on_device(als, rows, start, fixed, problem)[1]), whole)


@PRECISIONS
@pytest.mark.parametrize("n_factors", [33, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_and_penalty_agree_with_the_host(kind, n_factors, precision, als):
    problem, rows, fixed, start = case(kind, n_factors, LENGTHS, N_COLUMNS)
    problem = problem._replace(precision=precision)
    ours, theirs = als.prepare(rows, len(fixed), problem), host.prepare(rows, len(fixed), problem)
    table, still = als.load(start, problem), als.load(fixed, problem)
    found = [als.errors(ours, table, still, problem, (1.0, 5.0)) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0] == pytest.approx(host.errors(theirs, start, fixed, problem, (1.0, 5.0)), rel=1e-5)
    assert als.penalty(ours, table, problem) == pytest.approx(host.penalty(theirs, start, problem), rel=1e-6)


def test_exact_solutions_of_many_factors_are_refused(als):
    problem = EXPLICIT._replace(n_factors=257, solver="cholesky")
    with pytest.raises(InvalidParams, match=r"expected cg on a device beyond 256 factors.*use host"):
        als.side_bytes(np.ones(3, np.int64), 3, problem)


def test_nothing_is_solved_without_ratings(als):
    rows = Rows(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    small = EXPLICIT, IMPLICIT, EXPLICIT._replace(precision="float16")
    for problem in (*small, small[2]._replace(n_factors=256), *(problem._replace(n_factors=300) for problem in small)):
        side, empty = als.prepare(rows, 1, problem), als.load(np.zeros((0, width(problem)), np.float32), problem)
        als.solve(side, empty, empty, problem)
        als.finish()
        assert als.fetch(empty).shape == (0, width(problem))
        assert als.errors(side, empty, empty, problem, (1.0, 5.0)) == (0.0, 0.0)
        assert als.penalty(side, empty, problem) == 0.0


@PRECISIONS
@pytest.mark.parametrize("n_factors", [64, 256, 320])
@pytest.mark.parametrize("kind", ["biases", "implicit"])
def test_the_estimate_of_memory_is_an_upper_bound(kind, n_factors, precision, als):
    cupy = importlib.import_module("cupy")
    problem, rows, fixed, start = case(kind, n_factors, [2000] * 300 + [9000] * 20, 20_000)
    problem = problem._replace(precision=precision)
    lengths = np.bincount(rows.items, minlength=len(fixed)).astype(np.int64)
    order = np.argsort(rows.items, kind="stable")
    users = np.repeat(np.arange(len(rows.starts), dtype=np.int32), rows.lengths)[order]
    others = Rows(np.cumsum(lengths) - lengths, lengths, users, rows.values[order])
    cupy.get_default_memory_pool().free_all_blocks()
    before = free_bytes()
    needed = als.side_bytes(rows.lengths, len(fixed), problem) + als.side_bytes(lengths, len(start), problem)
    sides = [Extent(len(one), one, True) for one in (rows.lengths, lengths)]
    needed += als.base_bytes(*sides, problem)
    ours, theirs = als.prepare(rows, len(fixed), problem), als.prepare(others, len(start), problem)
    table, still = als.load(start, problem), als.load(fixed, problem)
    for _ in range(2):
        als.solve(ours, table, still, problem)
        als.solve(theirs, still, table, problem)
        als.errors(ours, table, still, problem, (1.0, 5.0))
    assert cupy.get_default_memory_pool().total_bytes() <= needed
    if "PYTEST_XDIST_WORKER" not in os.environ:  # other workers take of the same device
        assert before - free_bytes() <= needed


@pytest.mark.slow
@PRECISIONS
def test_offsets_beyond_32_bits(precision, als):
    """More than 2^31 ratings before a row, and more than 2^31 parameters before what it reads and writes."""
    n_before, n_rows, lengths = 2**31, 2**31 // 256 + 10, [1, 33, 9000]
    problem = EXPLICIT._replace(n_factors=256, precision=precision)
    if free_bytes() < 70 * 10**9:
        pytest.skip("needs 70 GB on the device")
    small_rows, small_fixed = rows_of(lengths, 9000), table_of(9000, problem)
    start = start_near(small_rows, small_fixed, problem)
    columns, values = np.zeros(n_before + sum(lengths), np.int32), np.zeros(n_before + sum(lengths), np.float32)
    columns[n_before:], values[n_before:] = small_rows.items + (n_rows - 9000), small_rows.values
    starts, counts = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64)
    starts[-3:], counts[-3:] = small_rows.starts + n_before, lengths
    tables = [np.zeros((n_rows, width(problem)), np.float32) for _ in range(2)]
    tables[0][-3:], tables[1][-9000:] = start, small_fixed
    side = als.prepare(Rows(starts, counts, columns, values), n_rows, problem)
    solved, still = (als.load(table, problem) for table in tables)
    als.solve(side, solved, still, problem)
    found = solved.values[-3:].get()
    median, worst = tolerance(DEVICE, problem)
    assert_rows_agree(found, on_host(small_rows, start, small_fixed, problem), (2 * median, 2 * worst))
