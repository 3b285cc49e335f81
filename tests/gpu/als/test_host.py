"""ALS on the CPU: what a row depends on, and the memory that a training takes."""

import tracemalloc

import numpy as np
import pytest

import gpu
from gpu.als import host as als
from gpu.als import host_cg as cg
from gpu.als.objective import AlsObjective, Extent, problem_of
from gpu.data.ratings import Rows
from gpu.data.signals import NEUTRAL
from tests.gpu.als.test_trainer import EXPLICIT, IMPLICIT, KINDS, near, pairs, rows_of, table_of
from tests.gpu.fitted import one_thread

N_COLUMNS = 40_000  # three blocks of the fixed side


def solved(rows: Rows, start: np.ndarray, fixed: np.ndarray, problem: AlsObjective) -> np.ndarray:
    table = start.copy()
    als.solve(als.prepare(rows, len(fixed), problem), table, fixed, problem)
    return table


@KINDS
def test_a_row_does_not_depend_on_the_rows_beside_it(kind: AlsObjective) -> None:
    """Nor on how the rows are dealt to threads, gathered into batches and cut by blocks."""
    assert N_COLUMNS * cg.LANES > 2 * cg.BLOCK_FLOATS
    rows, fixed = rows_of([3, 9000, 0, 40, 700, 8, 7], N_COLUMNS), table_of(N_COLUMNS, kind)
    start = near(rows, fixed, kind)
    together = solved(rows, start, fixed, kind)
    for x, (items, values) in enumerate(pairs(rows)):
        alone = Rows(np.zeros(1, np.int64), np.array([len(items)]), items, values)
        np.testing.assert_array_equal(solved(alone, start[x : x + 1], fixed, kind)[0], together[x])


@KINDS
def test_more_rows_than_a_batch_holds(kind: AlsObjective) -> None:
    n = 2 * cg.BATCH_FLOATS // cg.LANES + 100
    rows, fixed = rows_of([2] * n, 50), table_of(50, kind)
    start = np.zeros_like(table_of(n, kind))
    with one_thread():
        found = solved(rows, start, fixed, kind)
    picked = np.arange(0, n, 97)
    some = Rows(rows.starts[picked], rows.lengths[picked], rows.items, rows.values)
    np.testing.assert_array_equal(found[picked], solved(some, start[picked], fixed, kind))


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_ratings_may_lie_beyond_2_to_the_31(solver: str) -> None:
    far, problem = 2**31 + 5, EXPLICIT._replace(solver=solver)
    try:
        items, values = np.zeros(far + 40, np.int32), np.zeros(far + 40, np.float32)  # pages never touched take none
    except MemoryError:
        pytest.skip("no room for 17 GB of addresses")
    rows, fixed = rows_of([40], 60), table_of(60, problem)
    items[far:], values[far:] = rows.items, rows.values
    start = near(rows, fixed, problem)
    there = Rows(np.array([far]), rows.lengths, items, values)
    np.testing.assert_array_equal(solved(there, start, fixed, problem), solved(rows, start, fixed, problem))


@pytest.mark.parametrize("n_columns", [0, 1, 3, 4, 5, 63, 64, 1000])
def test_gram_of_any_number_of_rows(n_columns: int) -> None:
    table = table_of(n_columns, EXPLICIT)
    exact = table.astype(np.float64)
    np.testing.assert_allclose(als.gram_of(table), exact.T @ exact, rtol=1e-5, atol=1e-5)


def test_weights_of_the_regularization() -> None:
    lengths = np.array([0, 1, 10])
    np.testing.assert_allclose(EXPLICIT.ridges(lengths, 100), 0.05 * lengths)
    np.testing.assert_allclose(IMPLICIT.ridges(lengths, 100), 0.1 * np.sqrt(lengths + 50.0) + 0.3)


@pytest.mark.parametrize(
    "params", [gpu.AlsParams(n_factors=64, n_epochs=1), gpu.AlsImplicitParams(n_factors=64, n_epochs=1)]
)
def test_the_estimate_of_memory_holds_the_peak(params: gpu.AlsParams | gpu.AlsImplicitParams) -> None:
    rng = np.random.default_rng(0)
    ratings = gpu.Ratings.from_coo(rng.integers(0, 50_000, 60_000), rng.integers(0, 9_000, 60_000), np.ones(60_000))
    users, items = (Extent(len(rows.lengths), rows.lengths, True) for rows in (ratings.by_user, ratings.by_item))
    needed = als.base_bytes(users, items, problem_of(ratings, params, NEUTRAL))
    gpu.fit(ratings, params)  # compiles
    tracemalloc.start()
    try:
        gpu.fit(ratings, params)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * needed < peak <= needed
