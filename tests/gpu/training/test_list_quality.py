"""Measures of lists against plain definitions, and their intervals."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.training.list_quality import LEAST_SAMPLES, MEASURES, Lists, interval
from tests import reference
from tests.gpu.models import ratings_of
from tests.gpu.strategies import as_reference, matrices, random_model


@settings(max_examples=60)
@given(matrices(), st.integers(0, 3), st.booleans(), st.integers(0, 99), st.integers(1, 5))
def test_measures_are_those_of_their_definitions(
    matrix: np.ndarray, n_factors: int, implicit: bool, seed: int, k: int
) -> None:
    held_out = (np.random.default_rng(seed).random(matrix.shape) < 0.5) & ~np.isnan(matrix)
    train, test = np.where(held_out, np.nan, matrix), np.where(held_out, matrix, np.nan)
    model = random_model(train, n_factors, implicit, seed)
    expected: dict[str, list[float]] = {name: [] for name in MEASURES}
    listed: list[int] = []
    for user in range(matrix.shape[0]):
        scores = [reference.score(train, as_reference(model), user, j) for j in range(matrix.shape[1])]
        unseen = np.flatnonzero(np.isnan(train[user])).tolist()
        wanted = set(np.flatnonzero(test[user] >= 4).tolist())
        if not wanted:
            continue
        own = sorted(unseen, key=lambda j: reference.rank(scores, unseen, j))[:k]
        hits = [place for place, item in enumerate(own, 1) if item in wanted]
        listed += own
        expected["ndcg"].append(reference.ndcg([place - 1 for place in hits], len(wanted), k))
        expected["recall"].append(len(hits) / len(wanted))
        precisions = [n / place for n, place in enumerate(hits, 1)]
        expected["map"].append(sum(precisions) / min(k, len(wanted)))
        expected["mrr"].append(1 / hits[0] if hits else 0.0)
        expected["hit_rate"].append(float(bool(hits)))
    lists = Lists.of(model, ratings_of(train).by_user, ratings_of(test), 4, k + 2)
    for name in MEASURES:
        assert lists.of_users(name, k).tolist() == pytest.approx(expected[name]), name
    counts = np.count_nonzero(~np.isnan(train), axis=0)
    rated = [j for j, count in enumerate(counts) if count]
    if rated and listed:
        below = [sum((counts[i] < counts[j]) + (counts[i] == counts[j]) / 2 for i in rated) for j in listed]
        assert lists.coverage(k, counts) == pytest.approx(len({j for j in listed if counts[j]}) / len(rated))
        assert lists.popularity(k, counts) == pytest.approx(np.mean(below) / len(rated))
    else:
        assert math.isnan(lists.popularity(k, counts))


def test_pairs_of_the_training_are_no_test() -> None:
    matrix = np.array([[5.0, 5.0, np.nan]])
    model = random_model(matrix, 1, True, 0)
    lists = Lists.of(model, ratings_of(matrix).by_user, ratings_of(np.full((1, 3), 5.0)), 4, 3)
    assert lists.n_relevant.tolist() == [1]
    assert lists.items.tolist() == [[2, -1, -1]]
    assert lists.of_users("ndcg", 3).tolist() == [1.0]
    none = Lists.of(model, ratings_of(matrix).by_user, ratings_of(matrix), 4, 3)
    assert none.of_users("map", 3).shape == (0,)


def test_an_interval_holds_the_mean_and_shrinks_with_users() -> None:
    """At 95 % a normal interval is 1.96 standard errors wide to each side."""
    rng, widths = np.random.default_rng(3), []
    for n in (100, 10_000):
        values = rng.random(n)
        low, high = interval(values)
        error = values.std() / math.sqrt(n)
        assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.3 * error)
        assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.3 * error)
        widths.append(high - low)
    assert all(later < earlier / 5 for earlier, later in pairwise(widths))
    assert interval(np.ones(7)) == (1.0, 1.0)
    assert interval(rng.random(50)) != interval(rng.random(50))


def test_an_interval_of_very_many_users_takes_fewer_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu.training.list_quality.MOST_DRAWS", 1000)
    given: list[int] = []

    def quantile(means: list[float], _: object) -> tuple[float, float]:
        given.append(len(means))
        return 0.0, 1.0

    monkeypatch.setattr(np, "quantile", quantile)
    interval(np.zeros(500))
    assert given == [LEAST_SAMPLES]
