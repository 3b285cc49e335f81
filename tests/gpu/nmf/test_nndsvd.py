"""The start from singular vectors."""

import numpy as np
import pytest

from gpu.nmf import trainer as nmf
from gpu.nmf.nndsvd import nndsvd, singular
from gpu.nmf.params import NmfParams


def product_with(matrix: np.ndarray):
    return lambda by_row, rows: (matrix if by_row else matrix.T) @ rows


@pytest.mark.parametrize(("shape", "k"), [((60, 40), 5), ((40, 60), 5), ((7, 30), 12), ((5, 5), 5)])
def test_leading_singular_triples(shape: tuple[int, int], k: int) -> None:
    matrix = np.random.default_rng(0).random(shape) ** 4
    left, values, right = singular(product_with(matrix), shape, k, seed=1)
    expected = np.linalg.svd(matrix, compute_uv=False)[:k]
    np.testing.assert_allclose(values, expected, rtol=0.02)
    assert len(values) == min(k, *shape)
    np.testing.assert_allclose(left.T @ left, np.eye(len(values)), atol=1e-8)
    np.testing.assert_allclose(right.T @ right, np.eye(len(values)), atol=1e-8)
    np.testing.assert_allclose(left * values, matrix @ right, atol=0.1 * values[-1])


def test_the_first_pair_is_the_best_rank_one_and_the_others_keep_one_sign() -> None:
    matrix = np.random.default_rng(0).random((9, 7))
    W, H = nndsvd(product_with(matrix), matrix.shape, NmfParams(n_factors=3))
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    np.testing.assert_allclose(np.outer(W[:, 0], H[:, 0]), values[0] * np.outer(left[:, 0], right[0]), atol=1e-8)
    for k in (1, 2):
        parts = [np.outer(np.maximum(s * left[:, k], 0), np.maximum(s * right[k], 0)) for s in (1, -1)]
        kept = max(parts, key=np.linalg.norm)
        np.testing.assert_allclose(np.outer(W[:, k], H[:, k]), values[k] * kept, atol=1e-6)
    assert W.min() >= 0 and H.min() >= 0


def test_it_starts_closer_than_chance() -> None:
    matrix = np.random.default_rng(0).random((80, 50)) @ np.diag(np.linspace(0, 1, 50) ** 6)
    first = {}
    for start in ("random", "nndsvd"):
        params = NmfParams(n_factors=6, n_epochs=1, tolerance=0, start=start)
        first[start] = nmf.factorize(matrix, params).relative_error
    assert first["nndsvd"] < first["random"]
