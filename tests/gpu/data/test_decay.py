import dataclasses

import numpy as np
import pytest

import gpu
from gpu.algorithms import params_for
from gpu.als.params import AlsImplicitParams
from gpu.base.backend import HOST, Backend
from gpu.base.errors import InvalidInput, InvalidParams, InvalidRatings
from gpu.data.decay import DAY_S, MOST_WEIGHT, weighing, weights_in, weights_of
from gpu.data.param_kinds import Params, with_changes
from gpu.data.rating_table import POSITIONS_PER_MS, RatingTable
from gpu.data.ratings import Ratings
from gpu.ease.params import EaseParams
from gpu.online.model import HostModel
from gpu.online.reading import Reading
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.weighted import heard_in_time
from tests import reference
from tests.data import planted

T0_S, DAYS = 1.7e9, 10.0
PARAMS = AlsImplicitParams(n_factors=6, n_epochs=4, solver="cholesky", half_life_days=DAYS)
SMALL = {"n_factors": 4, "n_epochs": 3, "half_life_days": DAYS}
HASHED = SMALL | {"n_neighbors": 3, "n_bits": 64}
SAMPLED = [
    params_for("sgd", SMALL), params_for("culsh", HASHED), params_for("culsh-implicit", HASHED | {"n_negatives": 2})
]  # fmt: skip
OF_ALL = pytest.mark.parametrize("params", [*SAMPLED, EaseParams(half_life_days=DAYS)], ids=lambda one: one.algorithm)
OF_SAMPLED = pytest.mark.parametrize("params", SAMPLED, ids=lambda one: one.algorithm)


def times(ratings: Ratings, days: float = 60) -> gpu.Times:
    return gpu.Times(T0_S - np.random.default_rng(0).random(len(ratings)) * days * DAY_S, T0_S)


def table_of(ratings: Ratings, seconds: np.ndarray) -> RatingTable:
    """The ratings as a service has them, entry by entry."""
    table, (users, items, values) = RatingTable(ratings.n_users, ratings.n_items), ratings.coo()
    order = np.argsort(seconds, kind="stable")
    positions = np.rint(seconds[order] * 1000).astype(np.int64) * POSITIONS_PER_MS + np.arange(len(order))
    table.apply(users[order], items[order], values[order], seconds[order], positions)
    return table


def test_a_weight_halves_with_each_half_life() -> None:
    seconds = T0_S + np.array([-2 * DAYS, -DAYS, 0, DAYS, 1e9]) * DAY_S
    assert weights_of(seconds, T0_S, DAYS).tolist() == [0.25, 0.5, 1, 2, 2.0**60]


def test_equal_ages_change_nothing(backend: Backend) -> None:
    ratings = planted()
    now = gpu.Times(np.full(len(ratings), T0_S - 3 * DAY_S), T0_S)
    with_age = gpu.fit(ratings, PARAMS, backend=backend, times=now)
    without = gpu.fit(ratings, dataclasses.replace(PARAMS, half_life_days=None), backend=backend)
    np.testing.assert_allclose(with_age.item_factors, without.item_factors, rtol=1e-3, atol=1e-4)
    assert with_age.calibration.as_of_s == T0_S
    assert with_age.calibration.typical == pytest.approx(without.calibration.typical * 2 ** (-3 / DAYS))


def test_a_new_taste_counts_more_than_an_old_one(backend: Backend) -> None:
    """Each user likes items of one half, and later items of the other half."""
    generator = np.random.default_rng(0)
    users = np.repeat(np.arange(200), 20)
    items = np.concatenate([generator.permutation(60)[:20] for _ in range(200)])
    is_new = (items // 30) == (users % 2)
    ratings = Ratings.from_coo(users, items, np.ones(len(users)), (200, 60))
    ordered = Ratings.from_coo(users, items, is_new, (200, 60)).by_user.values > 0
    seconds = np.where(ordered, T0_S, T0_S - 10 * DAYS * DAY_S)
    model = gpu.fit(ratings, PARAMS, backend=backend, times=gpu.Times(seconds, T0_S))
    scores = model.user_factors @ model.item_factors.T
    own = (np.arange(60)[None] // 30) == (np.arange(200)[:, None] % 2)
    assert scores[own].mean() > 1.5 * scores[~own].mean()


def test_a_user_refitted_online_is_the_user_of_the_training(backend: Backend) -> None:
    ratings = planted()
    given = times(ratings)
    model = gpu.fit(ratings, dataclasses.replace(PARAMS, precision="float32"), backend=backend, times=given)
    expected, table = model.user_factors.copy(), table_of(ratings, given.seconds)
    np.testing.assert_allclose(table.seconds(), given.seconds, atol=0.001)
    online = HostModel(model, table, ratings.user_keys, ratings.item_keys, backend)
    online.touch(np.arange(50))
    assert online.settle()
    np.testing.assert_allclose(model.user_factors[:50], expected[:50], rtol=2e-2, atol=2e-3)


def test_a_rating_of_the_future_counts_as_of_its_arrival() -> None:
    table = table_of(Ratings.from_coo(np.array([0]), np.array([0]), np.array([1.0])), np.array([T0_S]))
    positions = np.array([int(T0_S * 1000 + 5000) * POSITIONS_PER_MS])
    table.apply(np.array([0]), np.array([0]), np.array([2.0]), np.array([9e9]), positions)
    assert table.seconds() == pytest.approx([T0_S + 5])


def test_times_must_fit_the_ratings() -> None:
    ratings = planted()
    with pytest.raises(InvalidParams, match="half_life_days: expected ratings with times"):
        gpu.fit(ratings, PARAMS)
    with pytest.raises(InvalidInput, match="length of times"):
        gpu.fit(ratings, PARAMS, times=gpu.Times(np.zeros(3), T0_S))
    with pytest.raises(InvalidRatings, match="of an age near half_life_days"):
        gpu.fit(ratings, PARAMS, times=gpu.Times(np.zeros(len(ratings)), T0_S))


@pytest.mark.parametrize("algorithm", ["als", "esgd", "nmf"])
def test_other_algorithms_have_no_half_life(algorithm: str) -> None:
    with pytest.raises(InvalidParams, match=f"Invalid parameter of {algorithm}: .*got 'half_life_days'"):
        params_for(algorithm, {"half_life_days": 30})


@pytest.mark.parametrize("days", [0, -1, 1e7])
def test_a_half_life_out_of_range_is_refused(days: float) -> None:
    with pytest.raises(InvalidParams, match="Invalid half_life_days"):
        params_for("als-implicit", {"half_life_days": days})


@pytest.mark.parametrize("values", ["ratings", "counts"])
def test_dislikes_stay_dislikes(values: str) -> None:
    users, items, found = planted().coo()
    signed = np.where(np.arange(len(found)) % 4, np.rint(found), -2.0)
    ratings, params = Ratings.from_coo(users, items, signed), dataclasses.replace(PARAMS, values=values)  # type: ignore[arg-type]
    now = gpu.Times(np.full(len(found), T0_S), T0_S)
    with_age, without = (
        gpu.fit(ratings, dataclasses.replace(params, half_life_days=days), times=now) for days in (DAYS, None)
    )
    np.testing.assert_allclose(with_age.user_factors, without.user_factors, rtol=1e-3, atol=1e-4)


@OF_ALL
def test_ratings_of_one_age_weigh_as_much_as_without_a_half_life(params: Params) -> None:
    ratings = planted(60, 40, 15)
    past = gpu.Times(np.full(len(ratings), T0_S - 3 * DAY_S), T0_S)
    with_age = gpu.fit(ratings, params, times=past)
    without = gpu.fit(ratings, with_changes(params, half_life_days=None))
    for name, array in without.arrays.items():
        np.testing.assert_array_equal(with_age.arrays[name], array, err_msg=name)
    assert with_age.calibration.as_of_s == T0_S
    assert with_age.calibration.usual_weight == pytest.approx(2 ** (-3 / DAYS))


@OF_SAMPLED
def test_no_step_is_much_longer_than_the_usual_one(params: Params) -> None:
    ratings = planted(60, 40, 15)
    seconds = np.full(len(ratings), T0_S - 9 * DAYS * DAY_S)
    seconds[:30] = T0_S
    model = gpu.fit(ratings, params, times=gpu.Times(seconds, T0_S))
    weights = weights_in(model, seconds)
    assert weights is not None
    assert weights[0] == MOST_WEIGHT
    assert weights[-1] == MOST_WEIGHT / 2**9


@OF_ALL
def test_a_training_needs_times_and_some_that_weigh(params: Params) -> None:
    ratings = planted(20, 15, 5)
    with pytest.raises(InvalidParams, match="half_life_days: expected ratings with times"):
        gpu.fit(ratings, params)
    with pytest.raises(InvalidInput, match="length of times"):
        gpu.fit(ratings, params, times=gpu.Times(np.zeros(3), T0_S))
    with pytest.raises(InvalidRatings, match="of an age near half_life_days"):
        gpu.fit(ratings, params, times=gpu.Times(np.zeros(len(ratings)), T0_S))


@OF_SAMPLED
def test_the_host_trains_and_serves_what_a_device_cannot_weigh(params: Params) -> None:
    device = Backend("device", "under test")
    assert weighing(params, device).name == "host"
    assert weighing(with_changes(params, half_life_days=None), device) is device
    assert weighing(PARAMS, device) is device
    assert weighing(params, HOST) is HOST


@OF_ALL
def test_a_user_who_is_not_stored_is_the_stored_one(params: Params) -> None:
    """With the same ratings, times and key; the newest ratings are newer than the training."""
    ratings = planted(60, 40, 15)
    given = times(ratings)
    model = gpu.fit(ratings, params, times=given._replace(as_of_s=T0_S - 5 * DAY_S))
    table = table_of(ratings, given.seconds)
    online = HostModel(model, table, ratings.user_keys, ratings.item_keys)
    online.touch(np.arange(60))
    assert online.settle()
    for user in (0, 17):
        items, values, seconds, _ = table.row(user)
        reading = Reading(ratings.user_keys[user], None, weights_in(model, seconds))
        found = online.fold_in(items, values, reading)
        for array, stored in zip(found, topn.users_of(model, np.array([user])), strict=True):
            np.testing.assert_array_equal(array, stored)


@OF_ALL
def test_ratings_that_come_one_by_one_leave_what_a_start_finds(params: Params) -> None:
    """Also those of a new user and of a new item; the oldest come last."""
    ratings = planted(60, 40, 15)
    known = np.flatnonzero((ratings.coo()[0] < 59) & (ratings.coo()[1] < 39))
    given, is_early = times(ratings), np.zeros(len(ratings), dtype=np.bool_)
    is_early[known[: len(known) // 2]] = True
    part = gpu.Times(given.seconds[is_early], T0_S)
    trained = gpu.fit(ratings.where(is_early), params, times=part)
    users, items, values = ratings.coo()
    order = np.concatenate([np.flatnonzero(is_early), np.flatnonzero(~is_early)])
    positions = int(T0_S * 1000 + 1) * POSITIONS_PER_MS + np.arange(len(order))

    def columns(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        chosen = order[part]
        return users[chosen], items[chosen], values[chosen], given.seconds[chosen], positions[part]

    models = []
    for sizes in ([len(order)], [is_early.sum(), 5, 40, len(order)]):
        table, done = RatingTable(60, 40), sizes[0]
        table.apply(*columns(slice(done)))
        copy = gpu.Model(
            params, trained.mean, trained.scale, {name: array.copy() for name, array in trained.arrays.items()},
            trained.calibration,
        )  # fmt: skip
        since = int(positions[is_early.sum()])
        online = HostModel(copy, table, ratings.user_keys, ratings.item_keys, since=since)
        online.touch(np.unique(users[~is_early]))
        for size in sizes[1:]:
            online.note(table.apply(*columns(slice(done, done + size))))
            assert online.settle()
            done += size
        assert online.settle()
        models.append(online.model)
    for name, array in models[0].arrays.items():
        np.testing.assert_array_equal(models[1].arrays[name], array, err_msg=name)


def test_a_user_of_sgd_solves_a_weighted_system() -> None:
    ratings = planted(60, 40, 15)
    given, params = times(ratings), SAMPLED[0]
    model = gpu.fit(ratings, params, times=given)
    online = HostModel(model, table_of(ratings, given.seconds), ratings.user_keys, ratings.item_keys)
    online.touch(np.arange(60))
    assert online.settle()
    rules = online._refits.user_rules  # type: ignore[attr-defined]
    weights = np.exp2((given.seconds - T0_S) / (DAYS * DAY_S))
    weights /= max(weights.mean(), weights.max() / MOST_WEIGHT)
    users, items, values = ratings.coo()
    for user in (0, 31):
        own = users == user
        z = np.column_stack([model.item_factors[items[own]].astype(np.float64), np.ones(own.sum())])
        y = values[own] - model.mean - model.item_bias[items[own]]
        ridge = np.diag(np.append(np.full(4, rules.factor * own.sum() + rules.factor_prior),
                                  rules.bias * own.sum() + rules.bias_prior))  # fmt: skip
        ridge[:4, :4] += rules.spread
        expected = np.linalg.solve((z.T * weights[own]) @ z + ridge, z.T @ (weights[own] * y))
        np.testing.assert_allclose(np.append(model.user_factors[user], model.user_bias[user]), expected, rtol=1e-3)


def test_ease_weighs_the_rows_of_x_and_the_rows_of_lists() -> None:
    ratings = planted(60, 40, 15)
    given = times(ratings)
    model = gpu.fit(ratings, EaseParams(half_life_days=DAYS, regularization=0.7, values="ratings"), times=given)
    users, items, values = ratings.coo()
    weights = np.exp2((given.seconds - T0_S) / (DAYS * DAY_S))
    weights /= weights.mean()
    x = np.zeros((60, 40))
    x[users, items] = np.where(values >= model.middle, weights, weights * reference.DISLIKED)
    b = reference.ease_weights(np.maximum(x, 0), 0.7)
    assert (model.item_slots == np.arange(40)).all()
    np.testing.assert_allclose(model.item_weights, b, atol=1e-5)
    everyone = np.arange(60)
    rows = heard_in_time(model, topn.rows_of(ratings.by_user, everyone), lambda at: (given.seconds[at], at))
    lists, scores = topn.recommend(ItemIndex(model), topn.users_of(model, everyone), rows, 40, include_seen=True)
    np.testing.assert_allclose(scores, np.take_along_axis(x @ b, lists, axis=1), atol=1e-4)
