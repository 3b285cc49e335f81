import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings

import gpu
from gpu.base.backend import Backend
from gpu.base.errors import InvalidRatings, TrainingDiverged
from gpu.data.calibration import calibrate
from gpu.data.model import MAX_WEIGHTED_ON_DEVICE, NO_SLOT, Model
from gpu.data.ratings import Ratings
from gpu.ease import host, objective
from gpu.ease.params import EaseParams
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from tests import reference
from tests.data import ML_1M, needs_ml_1m, planted
from tests.gpu.models import ratings_of
from tests.gpu.strategies import matrices


def dense_weights(model: Model) -> np.ndarray:
    """B (I, I); zeros where an item has no weights."""
    items = np.flatnonzero(model.item_slots != NO_SLOT)
    found = np.zeros((model.n_items, model.n_items))
    found[np.ix_(items, items)] = model.item_weights[np.ix_(model.item_slots[items], model.item_slots[items])]
    return found


def likes_of(matrix: np.ndarray, middle: float) -> np.ndarray:
    return (np.nan_to_num(matrix, nan=-np.inf) >= middle).astype(np.float64)


@given(matrix=matrices(min_ratings=1))
@settings(max_examples=60)
def test_weights_are_those_of_the_paper(matrix: np.ndarray, backend: Backend) -> None:
    ratings, params = ratings_of(matrix), EaseParams(regularization=0.7, values="ratings")
    model = gpu.fit(ratings, params, backend=backend)
    likes = likes_of(matrix, model.middle)
    np.testing.assert_allclose(dense_weights(model), reference.ease_weights(likes, 0.7), atol=1e-6)
    beside_others = likes[likes.sum(axis=1) > 1].any(axis=0)
    assert (model.item_slots != NO_SLOT).tolist() == beside_others.tolist() == model.item_trained.tolist()


@pytest.mark.parametrize("n_items", [host.BLOCK - 1, host.BLOCK, 2 * host.BLOCK + 7])
def test_blocks_make_the_same_weights(n_items: int, backend: Backend) -> None:
    rng = np.random.default_rng(n_items)
    likes = (rng.random((300, n_items)) < 0.05).astype(np.float64)
    found = backend.twin(host.item_weights)(scipy.sparse.csr_matrix(likes), 3.0)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, reference.ease_weights(likes, 3.0), atol=2e-6)


def test_scores_are_sums_over_what_was_rated() -> None:
    ratings = planted(60, 40, 15)
    model = gpu.fit(ratings, EaseParams())
    matrix = np.full((60, 40), np.nan)
    users, items, values = ratings.coo()
    matrix[users, items] = values
    x = np.where(np.isnan(matrix), 0.0, np.where(matrix >= model.middle, 1.0, reference.DISLIKED))
    everyone = np.arange(60)
    rows = topn.rows_of(ratings.by_user, everyone)
    lists, scores = topn.recommend(ItemIndex(model), topn.users_of(model, everyone), rows, 40, include_seen=True)
    exact = x @ dense_weights(model)
    assert not model.user_factors.any()  # everybody likes something
    np.testing.assert_allclose(scores, np.take_along_axis(exact, lists, axis=1), atol=1e-5)
    assert (np.diff(scores, axis=1) <= 0).all()
    predicted = gpu.evaluate.predict(model, ratings.by_user, users, items)
    np.testing.assert_allclose(predicted, exact[users, items], atol=1e-5)


def test_counts_weigh_by_their_signals() -> None:
    rng = np.random.default_rng(0)
    counts = np.where(rng.random((80, 20)) < 0.3, rng.geometric(0.05, (80, 20)) ** 2.0, np.nan)
    model = gpu.fit(ratings_of(counts), EaseParams(regularization=2.0))
    assert (model.calibration.values, model.calibration.is_damped) == ("counts", True)
    low = model.calibration.scale[0]
    signals = np.nan_to_num((1 + np.log(np.maximum(counts, low) / low)) / model.calibration.typical)
    np.testing.assert_allclose(dense_weights(model), reference.ease_weights(signals, 2.0), atol=1e-5)


def test_the_ridge_comes_from_what_chance_would_give() -> None:
    rng = np.random.default_rng(1)
    likes = np.where(rng.random((500, 300)) < 0.05, 1.0, np.nan)
    found = calibrate(ratings_of(likes), EaseParams()).regularization
    largest = np.linalg.eigvalsh(np.cov(np.nan_to_num(likes).T) * 500)[-1]
    assert largest < found < 2 * largest
    assert calibrate(ratings_of(likes), EaseParams(regularization=7.0)).regularization == 7.0


def test_who_likes_nothing_gets_popular_items_with_the_disliked_pushed_down() -> None:
    likes = np.full((30, 6), np.nan)
    likes[:20, :2], likes[:12, 2:4], likes[20:, [1, 4]] = 5.0, 5.0, 5.0
    likes[20, 5] = likes[0, 5] = 5.0
    matrix = np.vstack([likes, [np.nan, np.nan, 1.0, np.nan, np.nan, np.nan]])
    model = gpu.fit(ratings_of(matrix), EaseParams(regularization=2.0))
    assert model.user_factors[:, 0].tolist() == [0.0] * 30 + [1.0]
    np.testing.assert_allclose(model.item_factors[:, 0], likes_of(matrix, model.middle).sum(axis=0) / 31, rtol=1e-6)
    rows = topn.rows_of(ratings_of(matrix).by_user, np.array([30]))
    items, scores = topn.recommend(ItemIndex(model), topn.users_of(model, np.array([30])), rows, 6)
    assert items[0, 0] == 1
    weights = dense_weights(model)
    np.testing.assert_allclose(
        scores[0, :5], (model.item_factors[:, 0] + reference.DISLIKED * weights[2])[items[0, :5]]
    )
    assert weights[2, 3] > 0 > scores[0, items[0].tolist().index(3)] - model.item_factors[3, 0]


def _n_likes(ratings: Ratings) -> int:
    return int((ratings.by_user.values >= calibrate(ratings, EaseParams()).middle).sum())


def test_too_many_items_are_refused_with_what_they_would_take(
    monkeypatch: pytest.MonkeyPatch, backend: Backend
) -> None:
    needed, of_backend = (
        backend.twin(host.bytes_needed)(20, _n_likes(planted(60, 20, 10))),
        backend.twin(host.most_items),
    )
    monkeypatch.setitem(of_backend.__globals__, "MAX_WEIGHTED", 19)
    monkeypatch.setitem(of_backend.__globals__, "MAX_WEIGHTED_ON_DEVICE", 19)
    said = f"at most 19 on the {backend.name} that are liked together with others, got 20, .* about {needed:,} bytes"
    with pytest.raises(InvalidRatings, match=said):
        gpu.fit(planted(60, 20, 10), EaseParams(), backend=backend)
    gpu.fit(planted(60, 19, 10), EaseParams(), backend=backend)


@pytest.mark.parametrize("n_items", [1, 5, 8, 21])
def test_a_sweep_inverts_in_place(n_items: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a device does, with NumPy."""
    monkeypatch.setattr(objective, "PIVOT", 4)
    x = np.random.default_rng(n_items).standard_normal((3 * n_items, n_items))
    matrix = x.T @ x + np.eye(n_items)
    swept = matrix.copy()
    objective.sweep(swept, np.linalg.inv, 3)
    np.testing.assert_allclose(-swept, np.linalg.inv(matrix), atol=1e-12)


def test_a_device_takes_five_times_as_many_items_as_the_host() -> None:
    assert (host.most_items(), MAX_WEIGHTED_ON_DEVICE) == (20_000, 100_000)


def test_estimates_of_memory_grow_with_the_square_of_the_items(backend: Backend) -> None:
    needed = backend.twin(host.bytes_needed)
    assert needed(80_000, 0) > 3 * needed(40_000, 0) > 12 * 40_000**2
    assert needed(100, 10**6) > needed(100, 0) + 24 * 10**6 - 1


def test_a_matrix_without_an_inverse_says_what_to_change(backend: Backend) -> None:
    with pytest.raises(TrainingDiverged, match="raise regularization"):
        backend.twin(host.item_weights)(scipy.sparse.csr_matrix(np.ones((3, 3))), -3.0)


def test_moving_and_growing_a_model_copies_no_weights() -> None:
    model = gpu.fit(planted(60, 20, 10), EaseParams())
    users, items = np.arange(60), np.random.default_rng(0).permutation(25)[:20]
    items[3] = -1
    moved = model.mapped(users, items, 60, 25)
    moved.grow(61, 40)
    assert np.shares_memory(moved.item_weights, model.item_weights)
    assert moved.item_slots[items[items >= 0]].tolist() == np.delete(model.item_slots, 3).tolist()
    assert (moved.item_slots == NO_SLOT).sum() == 40 - 19


@needs_ml_1m
@pytest.mark.data
def test_it_ranks_better_than_als_on_movielens() -> None:
    """NDCG@10 on a fifth of each user's ratings (docs/performance.md)."""
    from benchmarks.datasets import lists_fold  # noqa: PLC0415 - reads the whole file

    fold = lists_fold(ML_1M)
    model = gpu.fit(fold.train, EaseParams())
    assert gpu.evaluate.ranking(model, fold.train.by_user, fold.test, 4.0)["ndcg@10"] > 0.37


def test_equal_ratings_give_equal_models() -> None:
    ratings: Ratings = planted(60, 20, 10)
    one, other = (gpu.fit(ratings, EaseParams()) for _ in range(2))
    for name, array in one.arrays.items():
        assert array.tobytes() == getattr(other, name).tobytes(), name
