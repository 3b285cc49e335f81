import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from gpu.base.host import njit
from gpu.data.host_solve import BATCH, PANEL, TILE, add_observations, factorize, solve, solve_nonnegative


@given(n_terms=st.integers(1, 40), n_batches=st.integers(0, 6), seed=st.integers(0, 99))
def test_weighted_ridge_regression(n_terms: int, n_batches: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_batches * BATCH, n_terms))
    weights, targets = rng.random(len(x)), rng.standard_normal(len(x))
    matrix, right = np.diag(rng.random(n_terms) + 0.5), np.zeros(n_terms)
    full = matrix + (x.T * weights) @ x
    for first in range(0, len(x), BATCH):
        part = slice(first, first + BATCH)
        add_observations(matrix, right, x[part], weights[part], targets[part])
    np.testing.assert_allclose(np.triu(matrix), np.triu(full), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(right, x.T @ targets, rtol=1e-10, atol=1e-10)
    solve(matrix, right)
    np.testing.assert_allclose(right, np.linalg.solve(full, x.T @ targets), rtol=1e-8, atol=1e-10)


@njit(fastmath={"contract"}, error_model="numpy")
def factorized_plainly(matrix):
    """Cholesky, one pivot at a time."""
    n, one = np.uintp(len(matrix)), np.uintp(1)
    for k in range(n):
        matrix[k, k:] *= 1 / np.sqrt(matrix[k, k])
        for i in range(k + one, n):
            line, pivot, factor = matrix[i], matrix[k], matrix[k, i]
            for c in range(i, n):
                line[c] -= factor * pivot[c]


@pytest.mark.parametrize(
    "n", [1, PANEL - 1, PANEL, PANEL + 1, TILE - 1, TILE, TILE + 1, 2 * TILE + PANEL, 3 * TILE - 3]
)
def test_tiles_change_no_bit(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n + 9, n))
    tiled, plain = (np.triu(x.T @ x) for _ in range(2))
    factorize(tiled)
    factorized_plainly(plain)
    np.testing.assert_array_equal(tiled, plain)
    np.testing.assert_allclose(tiled.T @ tiled, x.T @ x, rtol=1e-9, atol=1e-9)


@given(n_terms=st.integers(1, 30), seed=st.integers(0, 99))
def test_least_squares_without_a_number_below_zero(n_terms: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.random((40, n_terms)), rng.standard_normal(40)
    matrix, right = np.triu(x.T @ x), x.T @ y
    solve_nonnegative(matrix, right)
    expected, _ = optimize.nnls(x, y)
    np.testing.assert_allclose(right, expected, atol=1e-5)
