"""How much of what is popular now is learned, on drawn pairs with fashions and without."""

import numpy as np
import pytest

import gpu
from gpu.data.decay import DAY_S, Times
from gpu.data.signals import Calibration, Trend
from gpu.ranking.item_index import ItemIndex
from gpu.training.list_quality import Lists
from gpu.trend.host_counts import lifts_of_training
from gpu.trend.learn import learned

N_USERS, N_ITEMS, DAYS = 300, 120, 140
PARAMS = {"n_factors": 8, "n_epochs": 3}


def drawn(fashion: float, n_pairs: int = 9000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(users, items, seconds) in order of time. Users like items of their kind, of three; a share of the choices is one
    of the six items that are in fashion in that fortnight.
    """
    rng = np.random.default_rng(seed)
    seconds = np.sort(rng.uniform(0, DAYS * DAY_S, n_pairs))
    users = rng.integers(0, N_USERS, n_pairs)
    items = rng.integers(0, N_ITEMS // 3, n_pairs) * 3 + users % 3
    follows = rng.random(n_pairs) < fashion
    fortnight = (seconds / DAY_S // 14).astype(np.int64)
    items[follows] = (fortnight[follows] * 6 + rng.integers(0, 6, n_pairs)[follows]) % N_ITEMS
    return users, items, seconds


def ratings_of(users: np.ndarray, items: np.ndarray, seconds: np.ndarray) -> tuple[gpu.Ratings, Times]:
    values = np.ones(len(users), dtype=np.float32)
    return gpu.Ratings.from_coo(users, items, values, (N_USERS, N_ITEMS)), Times.of(users, items, seconds)


@pytest.mark.parametrize("algorithm", ["als-implicit", "ease", "culsh-implicit", "als"])
def test_fashion_is_learned_and_makes_the_next_lists_better(algorithm: str) -> None:
    users, items, seconds = drawn(0.5)
    params = gpu.params_for(algorithm, {} if algorithm == "ease" else PARAMS)
    ratings, times = ratings_of(users[:-450], items[:-450], seconds[:-450])
    if algorithm == "als":  # stars, of which each user's mean says nothing
        stars = np.random.default_rng(1).integers(1, 6, len(ratings)).astype(np.float32)
        ratings = gpu.Ratings.from_coo(*ratings.coo()[:2], stars, (N_USERS, N_ITEMS))
    trend = learned(ratings, times, params)
    assert trend is not None
    assert trend.weight > 0
    assert trend.remark == ""
    assert trend.half_life_days in (1, 7)
    assert 0 < trend.interval[0] < trend.gain < trend.interval[1]
    model = gpu.fit(ratings, params)
    test = gpu.Ratings.from_coo(users[-450:], items[-450:], np.ones(450, dtype=np.float32), (N_USERS, N_ITEMS))
    values = []
    for lifts in (None, lifts_of_training(trend, ratings, times)):
        index = ItemIndex(model)
        if lifts is not None:
            index.lift(np.arange(N_ITEMS), lifts)
        lists = Lists.of(model, ratings.by_user, test, 1.0, 20, index=index)
        values.append(float(lists.of_users("ndcg", 20).mean()))
    assert values[1] > 1.2 * values[0]


def test_without_fashion_nothing_is_added() -> None:
    trend = learned(*ratings_of(*drawn(0.0)), gpu.params_for("als-implicit", PARAMS))
    assert trend is not None
    assert (trend.weight, trend.remark) == (0.0, "the gain is within noise")
    assert trend.interval[0] <= 0
    assert trend.n_pairs >= 1000


def test_few_pairs_and_short_times_are_not_tested() -> None:
    params = gpu.params_for("als-implicit", PARAMS)
    few = learned(*ratings_of(*drawn(0.5, 2000)), params)
    assert few is not None
    assert few.weight == few.gain == 0
    assert 0 < few.n_pairs < 1000
    assert few.remark.startswith(
        f"not tested: {few.n_pairs} of the newest pairs are of users with older ones, expected 1,000"
    )
    users, items, seconds = drawn(0.5)
    ratings, times = ratings_of(users, items, seconds / 100)
    assert learned(ratings, times, params) == Trend(
        remark="not tested: times are spread over 1.4 days, expected 2 or more"
    )


def test_models_whose_scores_are_fixed_have_no_trend() -> None:
    ratings, times = ratings_of(*drawn(0.5, 500))
    assert learned(ratings, times, gpu.params_for("nmf", {"n_factors": 4, "n_epochs": 2})) is None
    paper = {"calibration": "none", "alpha": 10.0, "regularization": 0.1}
    assert learned(ratings, times, gpu.params_for("als-implicit", PARAMS | paper)) is None


def test_a_trend_is_the_same_for_the_same_pairs() -> None:
    pairs, params = ratings_of(*drawn(0.5)), gpu.params_for("als-implicit", PARAMS)
    assert learned(*pairs, params) == learned(*pairs, params)


def test_without_times_a_calibration_has_no_trend() -> None:
    assert Calibration().trend is None
