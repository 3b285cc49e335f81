"""The primitives of NMF on the host: one sweep and one product at a time, against plain NumPy."""

from itertools import pairwise

import numpy as np
import pytest

from gpu.data.ratings import Ratings
from gpu.nmf import host as hals
from gpu.nmf.host_blocks import GROUP, LANES, N_RUNS, runs_of
from tests import reference

SIZES = [(3, 5, 7), (LANES, 20, 8), (LANES + 1, GROUP - 1, 1), (2 * LANES - 3, LANES + 9, 13)]


def started(n_rows: int, n_columns: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(n_rows)
    matrix = generator.integers(0, 4, (n_rows, n_columns)).astype(np.float64)
    W, H = generator.random((n_rows, k)), generator.random((k, n_columns))
    return matrix, W / np.linalg.norm(W, axis=0), H


def sparse(matrix: np.ndarray) -> Ratings:
    rows, columns = np.nonzero(matrix)
    return Ratings.from_coo(rows, columns, matrix[rows, columns], matrix.shape)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", [np.asarray, sparse])
@pytest.mark.parametrize("tile", [0, 1, 3, 4, 5, 8])
def test_both_steps(size: tuple[int, int, int], form: object, tile: int) -> None:
    matrix, W, H = started(*size)
    tile = min(tile, size[2])
    placed = hals.load(form(matrix), np.float64)  # type: ignore[operator]
    rows, columns = hals.load_factors(W, tile), hals.load_factors(H.T, tile)
    hals.multiply(placed, False, rows, columns)
    hals.sweep(columns, hals.gram(rows), tile=tile, normalize=False)
    H = reference.hals_step_of_h(matrix, W, H)
    np.testing.assert_allclose(hals.fetch(columns), H.T, rtol=1e-10, atol=1e-12)
    assert hals.inner(columns) == pytest.approx(np.sum(H * (W.T @ matrix)))
    hals.multiply(placed, True, columns, rows)
    hals.sweep(rows, hals.gram(columns), tile=tile, normalize=True)
    np.testing.assert_allclose(hals.fetch(rows), reference.hals_step_of_w(matrix, W, H), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse])
def test_products_of_any_sign_and_squares(form: object) -> None:
    matrix, W, H = started(70, 300, 5)
    placed = hals.load(form(matrix), np.float64)  # type: ignore[operator]
    np.testing.assert_allclose(hals.product(placed, True, -H.T), -matrix @ H.T)
    np.testing.assert_allclose(hals.product(placed, False, -W), -matrix.T @ W)
    assert hals.squares(placed) == pytest.approx(np.sum(matrix**2))


@pytest.mark.parametrize("lengths", [[0], [5], [0] * 100 + [9000] + [1] * 3000])
def test_runs_cover_all_rows_and_share_the_work(lengths: list[int]) -> None:
    users = np.repeat(np.arange(len(lengths)), lengths)
    items = np.concatenate([np.arange(n) for n in lengths]).astype(np.int64)
    rows = Ratings.from_coo(users, items, np.ones(len(items)), (len(lengths), 9000)).by_user
    runs = runs_of(rows)
    assert (runs[0], runs[-1], len(runs)) == (0, -(-len(lengths) // GROUP), N_RUNS + 1)
    assert (np.diff(runs) >= 0).all()
    if len(lengths) > GROUP:
        work = np.add.reduceat(rows.lengths + GROUP, np.arange(0, len(lengths), GROUP))
        of_run = [work[first:last].sum() for first, last in pairwise(runs)]
        assert max(of_run) <= work.max() + work.sum() / N_RUNS
