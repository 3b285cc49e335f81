from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import gpu
from gpu.backend import Backend
from gpu.decay import DAY_S, weights_of
from gpu.errors import InvalidInput, InvalidParams, InvalidRatings
from gpu.online.host_model import HostModel
from gpu.online.rating_table import POSITIONS_A_MS, RatingTable
from gpu.params import PARAMETERS, AlsImplicitParams, params_for
from gpu.ratings import Ratings
from tests.data import planted

T0_S, DAYS = 1.7e9, 10.0
PARAMS = AlsImplicitParams(n_factors=6, n_epochs=4, solver="cholesky", half_life_days=DAYS)


def times(ratings: Ratings, days: float = 60) -> gpu.Times:
    return gpu.Times(T0_S - np.random.default_rng(0).random(len(ratings)) * days * DAY_S, T0_S)


def table_of(ratings: Ratings, seconds: np.ndarray) -> RatingTable:
    """The ratings as a service has them, entry by entry."""
    table, (users, items, values) = RatingTable(ratings.n_users, ratings.n_items), ratings.coo()
    order = np.argsort(seconds, kind="stable")
    positions = np.rint(seconds[order] * 1000).astype(np.int64) * POSITIONS_A_MS + np.arange(len(order))
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
    positions = np.array([int(T0_S * 1000 + 5000) * POSITIONS_A_MS])
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


@pytest.mark.parametrize("algorithm", sorted(PARAMETERS.keys() - {"als-implicit"}))
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
