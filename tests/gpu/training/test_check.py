"""Trainings that leave nothing fail and say what to change; small ones and NMF may leave little."""

import re

import numpy as np
import pytest

import gpu
from gpu.algorithms import ALGORITHMS
from gpu.data.ratings import Ratings
from gpu.training.check import check_trained
from tests.data import planted, times_of

SMALL = {"n_factors": 4, "n_epochs": 10, "n_bits": 64, "n_neighbors": 2}
HELD_BACK = {
    "als": {"regularization": 1e4},
    "als-implicit": {"regularization": 1e4, "alpha": 2.0},
    "culsh": {"regularization": 20.0},
    "culsh-implicit": {"regularization": 5.0},
    "esgd": {"regularization": 20.0},
    "sgd": {"regularization": 20.0},
}


def small_params(algorithm: str, **given: object) -> gpu.Params:
    known = {name: value for name, value in SMALL.items() if name in ALGORITHMS[algorithm].params.__dataclass_fields__}
    return gpu.params_for(algorithm, known | given)


@pytest.mark.parametrize("algorithm", HELD_BACK)
def test_dead_factors_fail_and_say_what_to_change(algorithm: str) -> None:
    given = HELD_BACK[algorithm]
    with pytest.raises(gpu.DeadFactors) as failed:
        gpu.fit(planted(), small_params(algorithm, **given))
    message = str(failed.value)
    assert f"Training of {algorithm} left dead factors" in message
    assert f"lower regularization ({given['regularization']:g})" in message
    assert "fewer n_factors (4)" in message
    assert ("raise alpha (2)" in message) == (algorithm == "als-implicit")


def test_dead_weights_fail_and_say_what_to_change() -> None:
    with pytest.raises(
        gpu.DeadFactors, match=r"^Training of ease left dead weights.*; lower regularization \(100000\)$"
    ):
        gpu.fit(planted(), small_params("ease", regularization=1e5))


def test_item_weights_of_users_with_one_rating_each_ask_for_more_ratings() -> None:
    """No λ would help: no two items have a user in common."""
    users = np.arange(1200)
    with pytest.raises(gpu.DeadFactors, match=r"no user likes two items.*; add ratings, or train als-implicit$"):
        gpu.fit(Ratings.from_coo(users, users % 40, np.ones(1200)), small_params("ease"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("n", [1, 2])
def test_what_is_too_small_to_say_anything_is_learned(algorithm: str, n: int) -> None:
    users, items = (index.ravel() for index in np.indices((n, n)))
    values = 1.0 + (users == items) * 4
    ratings = Ratings.from_coo(users, items, values)
    gpu.fit(ratings, small_params(algorithm), times=times_of(ratings))


def test_factors_are_measured_in_units_of_the_ratings() -> None:
    users, items, values = planted().coo()
    model = gpu.fit(Ratings.from_coo(users, items, values * 1e-6), small_params("als"))
    assert 0 < np.abs(model.item_factors).max() < 0.01


def test_one_side_of_zeros_is_enough_but_for_nmf() -> None:
    ratings = planted()
    for algorithm in ("als-implicit", "nmf"):
        model = gpu.fit(ratings, small_params(algorithm))
        model.item_factors[:] = 0
        if algorithm == "nmf":
            check_trained(model, ratings)
            model.user_factors[:] = 0
        with pytest.raises(gpu.DeadFactors, match=re.escape("use fewer n_factors (4)")):
            check_trained(model, ratings)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["item_factors", "user_bias", "explicit_weights"])
def test_values_that_are_not_finite_fail(name: str, bad: float) -> None:
    model = gpu.fit(planted(30, 20, 10), small_params("culsh"))
    getattr(model, name).flat[3] = bad
    with pytest.raises(gpu.TrainingDiverged, match="lower learning_rate"):
        check_trained(model, planted(30, 20, 10))


def test_products_that_are_not_finite_fail() -> None:
    model = gpu.fit(planted(30, 20, 10), small_params("als"))
    model.user_factors[0], model.item_factors[0] = 1e25, 1e25
    with pytest.raises(gpu.TrainingDiverged, match="finite parameters and scores; raise regularization"):
        check_trained(model, planted(30, 20, 10))
