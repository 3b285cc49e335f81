"""Errors, rankings and held-out pairs against plain definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.base.backend import Backend
from gpu.data.baselines import shrunk_biases
from gpu.data.ratings import Ratings
from gpu.training import evaluate
from tests import reference
from tests.gpu.models import ratings_of
from tests.gpu.strategies import as_reference, matrices, random_model

few = settings(max_examples=40)


@few
@given(matrices(min_ratings=1), st.integers(0, 3), st.integers(0, 99))
def test_errors_are_of_clipped_estimates(backend: Backend, matrix: np.ndarray, k: int, seed: int) -> None:
    model, ratings = random_model(matrix, k, False, seed), ratings_of(matrix)
    users, items, values = ratings.coo()
    known = as_reference(model)
    estimates = np.array([reference.score(matrix, known, u, j) for u, j in zip(users, items, strict=True)])
    errors = np.clip(estimates, 1, 5) - values
    rows = ratings.by_user
    found = evaluate.rmse(model, rows, users, items, values)
    assert found == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4, abs=1e-4)
    found = evaluate.mae(model, rows, users, items, values)
    assert found == pytest.approx(np.mean(np.abs(errors)), rel=1e-4, abs=1e-4)


def test_implicit_scores_are_not_clipped(backend: Backend) -> None:
    matrix = np.ones((1, 2))
    model = random_model(matrix, 0, True, 0)
    model.item_bias[:] = 50, -50
    scores = evaluate.predict(model, ratings_of(matrix).by_user, np.array([0, 0]), np.array([0, 1]))
    assert scores[0] > 40
    assert scores[1] < -40


def test_nothing_to_measure_is_nan(backend: Backend) -> None:
    matrix = np.ones((2, 2))
    model, ratings = random_model(matrix, 1, False, 0), ratings_of(matrix)
    none = np.array([], dtype=np.int32)
    assert np.isnan(evaluate.rmse(model, ratings.by_user, none, none, none.astype(float)))
    empty = ratings.where(np.zeros(len(ratings), np.bool_))
    result = evaluate.ranking(model, ratings.by_user, empty, backend=backend)
    assert np.isnan(list(result.values())).all()


@few
@given(matrices(), st.integers(0, 3), st.booleans(), st.integers(0, 99), st.integers(1, 4), st.integers(1, 5))
def test_full_ranking(
    backend: Backend, matrix: np.ndarray, k: int, implicit: bool, seed: int, k_ndcg: int, k_recall: int
) -> None:
    held_out = (np.random.default_rng(seed).random(matrix.shape) < 0.5) & ~np.isnan(matrix)
    train, test = np.where(held_out, np.nan, matrix), np.where(held_out, matrix, np.nan)
    model = random_model(train, k, implicit, seed)
    known, ndcgs, recalls = as_reference(model), [], []
    for user in range(matrix.shape[0]):
        scores = [reference.score(train, known, user, j) for j in range(matrix.shape[1])]
        unseen = np.flatnonzero(np.isnan(train[user])).tolist()
        ranks = [reference.rank(scores, unseen, j) for j in np.flatnonzero(test[user] >= 4)]
        if ranks:
            ndcgs.append(reference.ndcg(ranks, len(ranks), k_ndcg))
            recalls.append(sum(r < k_recall for r in ranks) / len(ranks))
    rows = ratings_of(train).by_user
    found = evaluate.ranking(model, rows, ratings_of(test), 4, k_ndcg, k_recall, backend=backend)
    expected = {f"ndcg@{k_ndcg}": mean(ndcgs), f"recall@{k_recall}": mean(recalls)}
    assert found == pytest.approx(expected, nan_ok=True)


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def test_sampled_ranking_counts_ties_half_and_drops_the_positive(backend: Backend) -> None:
    matrix = np.full((3, 6), np.nan)
    model = random_model(matrix, 0, True, 0)
    model.user_factors[:], model.user_bias[:] = 0, 0
    model.item_bias[:] = [0, 3, 3, 5, 1, -1]
    positives, negatives = np.array([1, 0, 3]), np.array([[2, 3, 4], [1, 2, 3], [3, 3, 0]])
    found = evaluate.sampled_ranking(model, ratings_of(matrix).by_user, positives, negatives, k=2)
    ranks = [1.5, 3.0, 0.0]
    assert found["hr@2"] == pytest.approx(2 / 3)
    assert found["ndcg@2"] == pytest.approx(sum(np.log(2) / np.log(r + 2) for r in ranks if r < 2) / 3)


def test_popularity_counts_who_rated(backend: Backend) -> None:
    matrix = np.array([[1, np.nan, 5, np.nan], [1, np.nan, 2, np.nan], [np.nan, 5, 3, np.nan]])
    test = np.array([[np.nan, np.nan, np.nan, 4], [np.nan, 4, np.nan, np.nan], [4, np.nan, np.nan, np.nan]])
    ratings = ratings_of(matrix)
    model = evaluate.baseline(ratings, is_implicit=True)
    assert model.item_bias.tolist() == [2, 1, 3, 0]
    found = evaluate.ranking(model, ratings.by_user, ratings_of(test), 0, 10, 1, backend=backend)
    ranks = [1, 0, 0]  # behind item 1; before item 3; the first item that is left
    assert found["ndcg@10"] == pytest.approx(np.mean([1 / np.log2(rank + 2) for rank in ranks]))
    assert found["recall@1"] == pytest.approx(2 / 3)


def test_the_baseline_of_estimates_is_clipped_averages(backend: Backend) -> None:
    users, items = np.repeat(np.arange(40), 3), np.tile([0, 1, 2], 40)
    values = np.where(items == 0, 5.0, np.where(users % 2, 1.0, 4.0))
    ratings = Ratings.from_coo(users, items, values)
    model = evaluate.baseline(ratings, is_implicit=False)
    known = shrunk_biases(ratings)
    expected = np.clip(known.mean + known.user[users] + known.item[items], 1, 5)
    found = evaluate.rmse(model, ratings.by_user, users, items, values)
    assert found == pytest.approx(np.sqrt(np.mean((expected - values) ** 2)), rel=1e-6)
    assert found < values.std()


def test_held_out_pairs_are_a_twentieth_and_do_not_depend_on_rows() -> None:
    users, items = (index.ravel().astype(np.uint64) for index in np.indices((400, 500)))
    mask = evaluate.is_held_out(users, items)
    assert abs(mask.mean() - 0.05) < 5 * np.sqrt(0.05 * 0.95 / len(mask))
    order = np.random.default_rng(0).permutation(len(users))
    np.testing.assert_array_equal(evaluate.is_held_out(users[order], items[order]), mask[order])
    per_user = mask.reshape(400, 500).sum(axis=1)
    assert per_user.std() == pytest.approx(np.sqrt(500 * 0.05 * 0.95), rel=0.2)
    assert (evaluate.is_held_out(items, users) != mask).any()


def test_held_out_pairs_never_change() -> None:
    users, items = np.array([1, 2**63, 7], np.uint64), np.array([5, 6, 2**64 - 1], np.uint64)
    golden = 0x9E3779B97F4A7C15
    expected = [
        reference.mix_64(reference.mix_64((int(u) + golden) & reference.MASK_64) ^ int(j)) % 3 == 0
        for u, j in zip(users, items, strict=True)
    ]
    assert evaluate.is_held_out(users, items, modulus=3).tolist() == expected
