"""als-implicit and its peer learn from the same ones and rank the same items."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpu
from benchmarks import als_lists, als_peer
from benchmarks.als_lists import SEEDS, Splits, as_ones
from benchmarks.ranking import HELD_OUT, RELEVANT_FROM, by_popularity, per_user_split
from gpu.params import AlsImplicitParams

PARAMS = AlsImplicitParams(n_factors=4, n_epochs=2)


@pytest.fixture(scope="module")
def ratings():
    """20 users of 10 ratings among 150 items."""
    rng = np.random.default_rng(0)
    users, items = np.repeat(np.arange(20), 10), np.concatenate([rng.permutation(150)[:10] for _ in range(20)])
    return gpu.Ratings.from_coo(users, items, rng.integers(1, 6, len(users)).astype(float), (20, 150))


def test_ones_are_the_same_pairs(ratings):
    ones = as_ones(ratings)
    assert (ones.by_user.values == 1).all()
    assert (ones.by_item.values == 1).all()
    assert np.array_equal(ones.by_item.items, ratings.by_item.items)


def test_a_row_has_a_value_for_each_seed_of_what_was_fitted_to_ones(ratings):
    seen = []

    def popular(part, params):
        seen.append((part, params))
        return by_popularity(part)

    row = Splits(ratings, 42).row("popular", popular, PARAMS)
    assert [params.seed for _, params in seen] == [seed for seed in SEEDS for _ in range(2)]
    assert all((part.by_user.values == 1).all() for part, _ in seen)
    assert [len(part) for part, _ in seen[:2]] == [180, 160]  # one of each user held out; a fifth held out
    train, test = per_user_split(ratings, HELD_OUT, 42)
    full = gpu.evaluate.ranking(by_popularity(train), train.by_user, test, RELEVANT_FROM)
    assert row.full_ndcg_at_10 == (full["ndcg@10"],) * len(SEEDS)
    assert len(row.hr_at_10) == len(row.ndcg_at_10) == len(SEEDS)


def test_factors_of_the_peer_become_a_model_of_ours(ratings):
    """A stand-in for its estimator keeps what it was given."""
    made = []

    class Estimator:
        cg_steps: int

        def __init__(self, **options):
            self.options = options
            made.append(self)

        def fit(self, confidences, show_progress):
            self.confidences = confidences
            self.user_factors, self.item_factors = np.full((20, 4), 2.0), np.full((150, 4), 3.0)

    params = dataclasses.replace(PARAMS, alpha=4, regularization=60, solver="cg", n_cg_steps=3, seed=7)
    peer: Any = SimpleNamespace(AlternatingLeastSquares=Estimator)
    model = als_peer.fit(peer, as_ones(ratings), params)
    (theirs,) = made
    assert set(theirs.confidences.data) == {5.0}  # of a rated pair; the others are at 1 in both
    assert theirs.confidences.shape == (20, 150)
    assert theirs.cg_steps == 3
    wanted = {"factors": 4, "regularization": 60, "iterations": 2, "random_state": 7}
    assert wanted.items() <= theirs.options.items()
    assert gpu.evaluate.predict(model, ratings.by_user, np.array([0]), np.array([1])) == [24.0]


def test_the_table_compares_equal_parameters_in_turn():
    assert all(params.regularization_exponent == 0 for params in als_lists.PEERS_BEST)
    assert als_lists.WEIGHTED.regularization_exponent > 0
    assert als_lists.WEIGHTED.n_factors == als_lists.PEERS_BEST[0].n_factors
