"""NMF: FAST-HALS plain and tiled against the oracle, its error, its edges, and what it is as a rating model."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize

import gpu
from gpu.base.backend import Backend
from gpu.base.errors import InvalidRatings, NotEnoughMemory
from gpu.nmf import trainer as nmf
from gpu.nmf.params import NmfParams
from gpu.online import explain
from gpu.online.model import HostModel
from gpu.training.loop import EpochReport
from tests import reference
from tests.data import planted, split
from tests.gpu.fitted import one_thread
from tests.gpu.models import table_of

K = 11
EXACT = NmfParams(n_factors=K, n_epochs=10, tolerance=0, precision="float64", solver="plain")


def matrix_of(n_rows: int = 40, n_columns: int = 29, density: float = 0.4, seed: int = 0) -> np.ndarray:
    """Non-negative and sparse, with an empty row and an empty column, in numbers that float32 holds exactly."""
    generator = np.random.default_rng(seed)
    matrix = generator.integers(1, 9, (n_rows, n_columns)) * (generator.random((n_rows, n_columns)) < density)
    matrix[n_rows // 2], matrix[:, n_columns // 3] = 0, 0
    return matrix.astype(np.float64)


def sparse(matrix: np.ndarray) -> gpu.Ratings:
    rows, columns = np.nonzero(matrix)
    return gpu.Ratings.from_coo(rows, columns, matrix[rows, columns], matrix.shape)


def tiled(tile: int, n_epochs: int, n_factors: int = K, **others: object) -> NmfParams:
    given = {"n_factors": n_factors, "n_epochs": n_epochs, "tile": tile, "tolerance": 0, "precision": "float64"}
    given["solver"] = "tiled"
    return gpu.params_for("nmf", given | others)  # type: ignore[return-value]


def extrapolated(n_epochs: int, tile: int = 0, **others: object) -> NmfParams:
    return tiled(tile, n_epochs, **({"solver": "extrapolated"} | others))  # type: ignore[arg-type]


def started(matrix: np.ndarray, params: NmfParams) -> tuple[np.ndarray, np.ndarray]:
    """The random start as the oracle takes it."""
    W, H = nmf.random_start(matrix.shape, matrix.mean(), params)
    norms = np.linalg.norm(W, axis=0)
    return W / norms, (H * norms).T


def assert_equal(found: nmf.Factors, W: np.ndarray, H: np.ndarray, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(found.W, W, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.H, H, rtol=tolerance, atol=tolerance * H.max())


@pytest.mark.parametrize("form", [np.asarray, sparse])
@pytest.mark.parametrize("n_epochs", [1, 10, 100])
def test_plain_is_the_algorithm_of_the_paper(backend: Backend, form: object, n_epochs: int) -> None:
    matrix, params = matrix_of(), tiled(0, n_epochs, solver="plain")
    found = nmf.factorize(form(matrix), params, backend)  # type: ignore[operator]
    assert_equal(found, *reference.hals(matrix, *started(matrix, params), n_epochs))
    assert found.relative_error == pytest.approx(reference.relative_error(matrix, found.W, found.H), rel=1e-9)
    assert found.n_epochs == n_epochs


@pytest.mark.parametrize("form", [np.asarray, sparse])
@pytest.mark.parametrize("tile", range(1, K + 1))
def test_tiles_change_nothing_but_the_order_of_sums(backend: Backend, form: object, tile: int) -> None:
    matrix = matrix_of(270, 60)  # more than one block
    given_matrix = form(matrix)  # type: ignore[operator]
    for n_epochs in (1, 10, 100):
        plain = nmf.factorize(given_matrix, tiled(0, n_epochs, solver="plain"), backend)
        found = nmf.factorize(given_matrix, tiled(tile, n_epochs), backend)
        assert_equal(found, plain.W, plain.H)


def test_tiles_of_tables_that_all_threads_share(backend: Backend) -> None:
    matrix = sparse(matrix_of(5000, 60, 0.1))
    plain = nmf.factorize(matrix, tiled(0, 3, solver="plain"), backend)
    for tile in (1, 3, K):
        assert_equal(nmf.factorize(matrix, tiled(tile, 3), backend), plain.W, plain.H)


@pytest.mark.parametrize(("n_factors", "tile"), [(1, 0), (2, 1), (4, 3), (9, 4), (30, 7), (41, 0), (64, 0), (64, 64)])
def test_any_number_of_factors(backend: Backend, n_factors: int, tile: int) -> None:
    """One factor, and more than the matrix has rows or columns, too."""
    matrix, params = matrix_of(), tiled(tile, 5, n_factors)
    found = nmf.factorize(matrix, params, backend)
    W, H = reference.hals(matrix, *started(matrix, params), 5)
    assert_equal(found, W, H, tolerance=1e-7)
    assert (found.W.shape, found.H.shape) == ((40, n_factors), (n_factors, 29))


def test_single_precision_follows_double(backend: Backend) -> None:
    matrix = matrix_of(700, 300)
    double = nmf.factorize(matrix, tiled(0, 20), backend)
    single = nmf.factorize(matrix, tiled(0, 20, precision="float32"), backend)
    assert single.W.dtype == single.H.dtype == np.float32
    assert single.relative_error == pytest.approx(double.relative_error, rel=1e-5)
    np.testing.assert_allclose(single.W, double.W, atol=1e-3)


@pytest.mark.parametrize("form", [np.asarray, sparse])
@pytest.mark.parametrize("n_epochs", [1, 10, 60])
@pytest.mark.parametrize("tile", [0, 1, K])
def test_extrapolation_follows_the_oracle(backend: Backend, form: object, n_epochs: int, tile: int) -> None:
    """60 epochs include some that are taken back."""
    matrix, params = matrix_of(270, 60), extrapolated(n_epochs, tile=tile)
    reports: list[EpochReport] = []
    found = nmf.factorize(form(matrix), params, backend, on_epoch=reports.append)  # type: ignore[operator]
    W, H, errors = reference.extrapolated_hals(matrix, *started(matrix, params), n_epochs)
    assert len(set(errors)) < n_epochs or n_epochs < 60
    np.testing.assert_allclose([report.metrics["relative_error"] for report in reports], errors, rtol=1e-9)
    assert_equal(found, W, H, tolerance=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_extrapolation_ends_with_a_lower_error(backend: Backend, seed: int) -> None:
    matrix = sparse(matrix_of(300, 200, 0.1))
    plain, found = (
        nmf.factorize(matrix, params, backend).relative_error
        for params in (tiled(0, 60, seed=seed), extrapolated(60, seed=seed))
    )
    assert found < plain


def test_a_matrix_with_far_larger_columns_is_solved(backend: Backend) -> None:
    """Columns of H that differ by 12 orders of magnitude do not slow the columns of W down."""
    matrix = matrix_of(60, 40) * np.logspace(-6, 6, 40)
    found = nmf.factorize(matrix, extrapolated(30), backend)
    assert found.relative_error < nmf.factorize(matrix, extrapolated(1), backend).relative_error
    np.testing.assert_allclose(np.linalg.norm(found.W, axis=0), 1, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1.0])
@pytest.mark.parametrize("n_factors", [2, 3])
def test_extrapolation_takes_up_a_column_that_vanished(backend: Backend, scale: float, n_factors: int) -> None:
    """Two kinds of rows with columns of their own; from this start a column of H is left with entries of ε alone."""
    matrix = np.zeros((8, 6))
    matrix[:4, :3], matrix[4:, 3:] = 2 * scale, scale
    params = extrapolated(100, n_factors=n_factors, precision="float32", tile=0)
    found = nmf.factorize(sparse(matrix), params, backend)
    assert found.relative_error < 1e-3
    np.testing.assert_allclose(found.W @ found.H, matrix, atol=1e-3 * scale)


@pytest.mark.parametrize("form", [np.asarray, sparse])
@pytest.mark.parametrize("solver", ["extrapolated", "tiled", "plain"])
@pytest.mark.parametrize("exponent", [-100, -40, 30, 100])  # 2^30 is a billion
def test_a_scale_of_the_matrix_is_one_of_H(backend: Backend, form: Any, solver: str, exponent: int) -> None:  # noqa: N802
    """In float32, squares of sums of squares overflow, and small entries lie below ε."""
    params, matrix = tiled(0, 20, precision="float32", solver=solver), matrix_of() * 2.0**10
    found = nmf.factorize(form(matrix * 2.0**exponent), params, backend)
    expected = nmf.factorize(form(matrix), params, backend)
    assert found.relative_error == pytest.approx(expected.relative_error, rel=1e-4)
    np.testing.assert_allclose(found.H, expected.H * 2.0**exponent, rtol=1e-3, atol=1e-3 * 2.0**exponent)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("start", ["random", "nndsvd"])
@pytest.mark.parametrize("solver", ["extrapolated", "tiled"])
def test_the_error_never_rises(backend: Backend, precision: str, start: str, solver: str) -> None:
    reports: list[EpochReport] = []
    params = tiled(0, 60, precision=precision, start=start, solver=solver)
    nmf.factorize(sparse(matrix_of(300, 200, 0.1)), params, backend, on_epoch=reports.append)
    errors = [report.metrics["relative_error"] for report in reports]
    assert all(after <= before * (1 + 1e-6) for before, after in pairwise(errors))
    assert errors[-1] < errors[0]


@settings(max_examples=30)
@given(
    matrix=hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=9),
        elements=st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.5, 1000.0]),
    ).filter(np.any),
    n_factors=st.integers(1, 12),
    tile=st.integers(0, 12),
    start=st.sampled_from(["random", "nndsvd"]),
    precision=st.sampled_from(["float32", "float64"]),
    solver=st.sampled_from(["extrapolated", "tiled"]),
)
def test_any_matrix_gives_finite_factors_without_a_negative(
    matrix: np.ndarray, n_factors: int, tile: int, start: str, precision: str, solver: str
) -> None:
    errors: list[float] = []
    params = tiled(tile, 4, n_factors, start=start, precision=precision, solver=solver)
    for form in (matrix, sparse(matrix)):
        found = nmf.factorize(form, params, on_epoch=lambda report: errors.append(report.metrics["relative_error"]))
        assert np.isfinite(found.W).all() and np.isfinite(found.H).all()
        assert min(found.W.min(), found.H.min()) >= np.float32(1e-16) * 0.999  # smaller squares would be denormal
        np.testing.assert_allclose(np.linalg.norm(found.W, axis=0), 1, rtol=1e-5)
        assert found.relative_error == pytest.approx(reference.relative_error(matrix, found.W, found.H), abs=2e-3)


def test_empty_rows_and_columns_stay_next_to_zero(backend: Backend) -> None:
    matrix = matrix_of()
    found = nmf.factorize(matrix, tiled(0, 30), backend)
    assert found.W[20].max() < 1e-9 * found.W.max()
    assert found.H[:, 9].max() < 1e-9 * found.H.max()


def test_it_finds_planted_factors(backend: Backend) -> None:
    generator = np.random.default_rng(1)
    W, H = (generator.random(shape) * (generator.random(shape) < 0.5) for shape in ((60, 4), (4, 50)))
    found = nmf.factorize(W @ H, tiled(0, 500, 4), backend)
    assert found.relative_error < 0.02


def test_extrapolation_stops_at_a_small_gain_not_at_an_epoch_taken_back(backend: Backend) -> None:
    errors: list[float] = []
    params = extrapolated(500, tolerance=1e-4)
    found = nmf.factorize(
        matrix_of(), params, backend, on_epoch=lambda report: errors.append(report.metrics["relative_error"])
    )
    gains = [(before - after) / before for before, after in pairwise(errors)]
    assert 0.0 in gains[:-1]
    assert found.n_epochs == len(errors) < 500
    assert 0 < gains[-1] < 1e-4 <= min(gain for gain in gains[:-1] if gain)


def test_extrapolation_stops_where_nothing_is_left_to_gain(backend: Backend) -> None:
    matrix = np.outer(np.arange(1.0, 40), np.arange(1.0, 30))
    found = nmf.factorize(matrix, tiled(0, 500, 1, solver="extrapolated", tolerance=1e-3), backend)
    assert found.n_epochs < 100
    assert found.relative_error < 1e-6


def test_it_stops_once_an_epoch_gains_little(backend: Backend) -> None:
    reports: list[EpochReport] = []
    params = tiled(0, 500, tolerance=1e-3)
    found = nmf.factorize(matrix_of(), params, backend, on_epoch=reports.append)
    errors = [report.metrics["relative_error"] for report in reports]
    gains = [(before - after) / before for before, after in pairwise(errors)]
    assert found.n_epochs == len(reports) < 500
    assert gains[-1] < 1e-3 <= min(gains[:-1])


def test_equal_seeds_give_equal_factors_whatever_the_threads(backend: Backend) -> None:
    matrix = sparse(matrix_of(5000, 600, 0.02))
    params = NmfParams(n_factors=12, n_epochs=5)
    with one_thread():
        alone = nmf.factorize(matrix, params, backend)
    together = nmf.factorize(matrix, params, backend)
    np.testing.assert_array_equal(alone.W, together.W)
    np.testing.assert_array_equal(alone.H, together.H)
    other = nmf.factorize(matrix, NmfParams(n_factors=12, n_epochs=5, seed=1), backend)
    assert not np.allclose(other.W, together.W)


def test_the_tile_follows_the_model_of_the_paper() -> None:
    assert [nmf.tile_of(NmfParams(n_factors=k)) for k in (1, 2, 80, 160, 240)] == [1, 1, 9, 13, 15]
    assert nmf.tile_of(NmfParams(n_factors=8, tile=20)) == 8


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[1.0, -1.0]]),
        np.array([[1.0, np.nan]]),
        np.array([[1.0, np.inf]]),
        np.zeros((2, 2)),
        np.zeros((0, 3)),
        np.ones(4),
        np.ones((2, 2, 2)),
        np.ones((2, 2), dtype=complex),
        np.array([["a"]]),
    ],
)
def test_matrices_that_cannot_be_factorized_are_refused(matrix: np.ndarray) -> None:
    with pytest.raises(InvalidRatings, match="Invalid"):
        nmf.factorize(matrix, EXACT)


def test_too_large_a_training_says_both_numbers(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backend, "free_bytes", lambda _: 1234)
    with pytest.raises(NotEnoughMemory, match="bytes and 1,234 are free"):
        gpu.fit(planted(), NmfParams(n_factors=1024), backend=backend)


# --- as a rating model -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_user", [4, 40])  # as a sparse matrix, and as a dense one
def test_its_model_is_W_and_H(backend: Backend, per_user: int) -> None:  # noqa: N802
    ratings = planted(per_user=per_user)
    params = NmfParams(n_factors=6, n_epochs=10)
    model = gpu.fit(ratings, params, backend=backend)
    found = nmf.factorize(ratings, params, backend)
    np.testing.assert_allclose(model.user_factors, found.W, atol=1e-4)
    np.testing.assert_allclose(model.item_factors, found.H.T, atol=1e-2)
    assert model.is_implicit
    assert model.mean == 0 and not model.user_bias.any() and not model.item_bias.any()
    assert model.scale == (0.0, ratings.scale[1])
    assert model.user_trained.all() and model.item_trained.all()


def test_rows_without_ratings_have_no_parameters(backend: Backend) -> None:
    users, items, values = planted().coo()
    ratings = gpu.Ratings.from_coo(users + 1, items + 2, values, (310, 130))
    model = gpu.fit(ratings, NmfParams(n_factors=6, n_epochs=5), backend=backend)
    assert not model.user_factors[[0, 305]].any() and not model.item_factors[[0, 1, 125]].any()
    assert not model.user_trained[0] and model.user_trained[1:301].all()


def test_it_ranks_held_out_items_better_than_chance(backend: Backend) -> None:
    generator = np.random.default_rng(0)
    taste = generator.integers(0, 4, 200)  # users of four kinds rate the items of their kind
    users = np.repeat(np.arange(200), 10)
    items = taste[users] * 30 + generator.permuted(np.tile(np.arange(30), (200, 1)), axis=1)[:, :10].ravel()
    train, test = split(gpu.Ratings.from_coo(users, items, np.ones(2000), (200, 120)), 0.2)
    reports: list[EpochReport] = []
    gpu.fit(train, NmfParams(n_factors=4, n_epochs=50), backend=backend, test=test, on_epoch=reports.append)
    assert set(reports[-1].metrics) == {"relative_error", "test_ndcg@10", "test_recall@20"}
    assert reports[-1].metrics["test_recall@20"] > 0.6


@pytest.mark.parametrize("n_items", [3, 30])  # dense and sparse
def test_a_rating_below_zero_is_refused(n_items: int, backend: Backend) -> None:
    users, items, values = np.array([0, 0, 2]), np.array([0, 1, 2]), np.array([1.0, 2.0, -3.0])
    ratings = gpu.Ratings.from_coo(users, items, values, (3, n_items))
    with pytest.raises(InvalidRatings, match="nmf: expected 0 or more, got -3; train als-implicit") as refused:
        gpu.fit(ratings, NmfParams(), backend=backend)
    assert (refused.value.user_row, refused.value.item_row) == (2, 2)
    named = refused.value.named(["ann", "bob", "cy"], ["x", "y", "z"])
    assert str(named).endswith(" (user 'cy', item 'z')")


# --- online ----------------------------------------------------------------------------------------------------------


def followed(n_new_items: int = 0) -> tuple[gpu.Model, HostModel, np.ndarray]:
    """A model of planted ratings and its follower; its last items count as newer than the model."""
    ratings = planted()
    model = gpu.fit(ratings, NmfParams(n_factors=6, n_epochs=20))
    newest = np.arange(ratings.n_items - n_new_items, ratings.n_items)
    model.item_trained[newest], model.item_factors[newest] = False, 0
    matrix = np.full((ratings.n_users, ratings.n_items), np.nan)
    users, items, values = ratings.coo()
    matrix[users, items] = values
    return model, HostModel(model, table_of(matrix), ratings.user_keys, ratings.item_keys), np.nan_to_num(matrix)


def test_a_touched_user_solves_non_negative_least_squares() -> None:
    model, online, matrix = followed(n_new_items=3)
    online.touch(np.array([5, 7]))
    assert online.settle()
    known = model.item_trained
    for user in (5, 7):
        expected, _ = optimize.nnls(model.item_factors[known].astype(np.float64), matrix[user, known])
        np.testing.assert_allclose(model.user_factors[user], expected, rtol=1e-4, atol=1e-6)


def test_a_new_item_solves_non_negative_least_squares() -> None:
    model, online, matrix = followed(n_new_items=3)
    assert online.settle()
    for item in (117, 119):
        expected, _ = optimize.nnls(model.user_factors.astype(np.float64), matrix[:, item])
        np.testing.assert_allclose(model.item_factors[item], expected, rtol=1e-4, atol=1e-4)


def test_shares_of_the_ratings_add_up_to_the_score() -> None:
    model, online, matrix = followed()
    online.touch(np.array([5]))
    assert online.settle()
    rated = np.flatnonzero(matrix[5])
    targets = np.flatnonzero(matrix[5] == 0)[:4]
    shares = explain.shares(model, rated, matrix[5, rated].astype(np.float32), targets, online.gram)
    np.testing.assert_allclose(shares.sum(axis=1), model.item_factors[targets] @ model.user_factors[5], rtol=1e-3)
