import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpu
from gpu.base.backend import HOST, Backend
from gpu.base.errors import DeadFactors, NotEnoughMemory
from gpu.data.model import Model
from gpu.data.ratings import Ratings
from gpu.hashing import cooccurrence, host_cooccurrence
from gpu.neighbors.params import NeighborsParams
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from tests import reference
from tests.data import planted
from tests.gpu.models import ratings_of
from tests.gpu.strategies import matrices


def dense_weights(model: Model) -> np.ndarray:
    """The weights (I, I); zeros beyond the lists."""
    found = np.zeros((model.n_items, model.n_items))
    rows, places = np.nonzero(model.listed >= 0)
    found[rows, model.listed[rows, places]] = model.listed_weights[rows, places]
    return found


def likes_of(matrix: np.ndarray, middle: float) -> np.ndarray:
    return (np.nan_to_num(matrix, nan=-np.inf) >= middle).astype(np.float64)


def sparse(n_users: int, n_items: int, mean: float, seed: int = 0) -> Ratings:
    """Clicks of users of very unequal activity on items of very unequal popularity."""
    rng = np.random.default_rng(seed)
    chance = np.outer(rng.pareto(1.5, n_users) + 0.2, rng.pareto(1.2, n_items) + 0.1)
    clicks = rng.random(chance.shape) < chance * (mean / chance.sum(axis=1).mean())
    users, items = np.nonzero(clicks)
    keys = (rng.integers(0, 2**63, n).astype(np.uint64) for n in (n_users, n_items))
    return Ratings.from_coo(users, items, np.ones(len(users)), clicks.shape, *keys)


@given(
    matrix=matrices(min_ratings=1), length=st.integers(1, 9), alpha=st.sampled_from([0.0, 0.5, 1.0]),
    prior=st.sampled_from([0.0, 3.0]), beta=st.sampled_from([0.0, 0.5, 1.0]), most=st.integers(2, 5),
)  # fmt: skip
@settings(max_examples=60)
def test_weights_are_those_of_the_equations(
    matrix: np.ndarray, length: int, alpha: float, prior: float, beta: float, most: int, backend: Backend
) -> None:
    keys = np.random.default_rng(len(matrix)).permutation(matrix.shape[1]).astype(np.uint64)
    ratings, rows = ratings_of(matrix), np.arange(len(matrix), dtype=np.uint64)
    params = NeighborsParams(length, alpha, prior, beta, most, values="ratings")
    try:
        model = gpu.fit(Ratings(ratings.by_user, ratings.by_item, rows, keys), params, backend=backend)
    except DeadFactors:
        return
    likes, counts = likes_of(matrix, model.middle), (~np.isnan(matrix)).sum(axis=0)
    expected = reference.together(likes, counts, keys, length, alpha, prior, beta, most)
    np.testing.assert_allclose(dense_weights(model), expected, rtol=1e-6)
    assert ((dense_weights(model) > 0) == (expected > 0)).all()
    assert model.item_trained.tolist() == (expected > 0).any(axis=1).tolist()


@pytest.mark.parametrize("length", [1, 20, 1024])
def test_host_and_device_make_the_same_bits(length: int, backend: Backend) -> None:
    ratings = sparse(700, 1500, 25)
    params = NeighborsParams(length, max_likes=200)
    model, twin = (gpu.fit(ratings, params, backend=one) for one in (HOST, backend))
    for name, array in model.arrays.items():
        assert array.tobytes() == getattr(twin, name).tobytes(), name
    assert (model.listed[:, -1] >= 0).any()
    assert (model.listed[:, -1] < 0).any()


def test_the_order_of_users_and_items_does_not_matter() -> None:
    ratings = sparse(300, 200, 10)
    users, items, values = ratings.coo()
    rng = np.random.default_rng(3)
    to_users, to_items = rng.permutation(300), rng.permutation(200)
    keys = ratings.user_keys[np.argsort(to_users)], ratings.item_keys[np.argsort(to_items)]
    moved = Ratings.from_coo(to_users[users], to_items[items], values, (300, 200), *keys)
    params = NeighborsParams(n_neighbors=15)
    one, other = (dense_weights(gpu.fit(each, params)) for each in (ratings, moved))
    assert (one == other[np.ix_(to_items, to_items)]).all()


def test_a_list_is_the_sum_of_what_was_liked_and_then_by_popularity() -> None:
    ratings = planted(60, 40, 8)
    model = gpu.fit(ratings, NeighborsParams(n_neighbors=5))
    matrix = np.full((60, 40), np.nan)
    users, items, values = ratings.coo()
    matrix[users, items] = values
    x = np.where(np.isnan(matrix), 0.0, np.where(matrix >= model.middle, 1.0, reference.DISLIKED))
    exact = x @ dense_weights(model) + cooccurrence.POPULARITY * (x > 0).sum(axis=0)
    everyone = np.arange(60)
    rows = topn.rows_of(ratings.by_user, everyone)
    lists, scores = topn.recommend(ItemIndex(model), topn.users_of(model, everyone), rows, 40, include_seen=True)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, lists, axis=1), rtol=1e-4, atol=1e-13)
    assert (np.diff(scores, axis=1) <= 0).all()
    predicted = gpu.evaluate.predict(model, ratings.by_user, users, items)
    np.testing.assert_allclose(predicted, exact[users, items], rtol=1e-4, atol=1e-13)
    unlisted = set(np.flatnonzero(x[0] @ dense_weights(model) == 0).tolist())
    order = [item for item in lists[0].tolist() if item in unlisted]
    assert order
    assert (np.diff((x > 0).sum(axis=0)[order]) <= 0).all()


def test_counts_are_ones() -> None:
    ratings = sparse(100, 60, 10)
    rng = np.random.default_rng(2)
    counts = Ratings.from_coo(*ratings.coo()[:2], rng.geometric(0.05, len(ratings)) ** 2.0, (100, 60))
    ones = Ratings.from_coo(*ratings.coo(), (100, 60))
    models = [gpu.fit(each, NeighborsParams()) for each in (counts, ones)]
    assert [model.calibration.values for model in models] == ["counts", "counts"]
    assert (models[0].listed_weights == models[1].listed_weights).all()
    users = np.arange(100)
    lists = [
        topn.recommend(ItemIndex(model), topn.users_of(model, users), topn.rows_of(each.by_user, users), 10)
        for model, each in zip(models, (counts, ones), strict=True)
    ]
    assert (lists[0][1] == lists[1][1]).all()


def test_who_likes_very_much_costs_nothing_and_says_nothing() -> None:
    ratings = sparse(200, 300, 10)
    users, items, values = ratings.coo()
    greedy = Ratings.from_coo(
        np.append(users, np.full(300, 200)),
        np.append(items, np.arange(300)),
        np.append(values, np.ones(300)),
        (201, 300),
    )
    params = NeighborsParams(n_neighbors=10, popularity_exponent=1.0, max_likes=299)
    one, other = (gpu.fit(each, params) for each in (Ratings.from_coo(users, items, values, (200, 300)), greedy))
    assert (one.listed == other.listed).all()
    assert (one.listed_weights == other.listed_weights).all()


def test_no_user_with_two_likes_is_an_error_that_says_so() -> None:
    users = np.arange(1200)
    with pytest.raises(DeadFactors, match="no user likes two items"):
        gpu.fit(Ratings.from_coo(users, users % 40, np.ones(1200)), NeighborsParams())


def test_memory_is_checked_before(backend: Backend) -> None:
    needed = backend.twin(host_cooccurrence.bytes_needed)
    assert needed(200_000, 10, 10, 100) > 8 * 100 * 200_000
    with pytest.raises(NotEnoughMemory, match="with lists of 500 items"):
        gpu.fit(sparse(50, 30, 5), NeighborsParams(), backend=backend.within(2**29 if backend.name == "device" else 10))


@pytest.mark.parametrize(
    ("count", "level"), [(0, -1), (1, 0), (2, 2), (3, 3), (4, 4), (5, 4), (6, 5), (8, 6), (1024, 20)]
)
def test_popularity_counts_in_steps_of_the_root_of_two(count: int, level: int) -> None:
    assert cooccurrence.levels(np.array([count])).tolist() == [level]
