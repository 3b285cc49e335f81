"""Extreme data and parameters: each ends in a model, or in one error that says what to change."""

import re
from typing import Any

import numpy as np
import pytest

import gpu
from gpu.algorithms import ALGORITHMS
from gpu.data.ratings import Ratings
from gpu.ranking.weighted import rows_in_time
from tests.data import planted, times_of

SMALL = {"n_factors": 16, "n_epochs": 3, "n_bits": 64, "n_neighbors": 4}
USERS, ITEMS, VALUES = planted(100, 60, 25).coo()
ALTERNATE = np.arange(len(VALUES)) % 2 == 1
ADVICE = re.compile(r"; (use|train|lower|raise|add)|expected finite numbers, not all 0")


def params_of(algorithm: str, **given: object) -> gpu.Params:
    known = {name: value for name, value in SMALL.items() if name in ALGORITHMS[algorithm].params.__dataclass_fields__}
    return gpu.params_for(algorithm, known | given)


def with_values(values: object) -> Ratings:
    return Ratings.from_coo(USERS, ITEMS, np.broadcast_to(np.asarray(values, dtype=np.float64), len(VALUES)))


def with_one(value: float) -> Ratings:
    changed = VALUES.astype(np.float64)
    changed[3] = value
    return with_values(changed)


def stars(users: np.ndarray, items: np.ndarray) -> Ratings:
    return Ratings.from_coo(users, items, 1.0 + np.arange(len(users)) % 5)


FEW = np.arange(50)
DATA = {
    "all equal": with_values(4.0),
    "all 0.1": with_values(0.1),
    "all 0": with_values(0.0),
    "all -2": with_values(-2.0),
    "all 1e9": with_values(1e9),
    "one user": stars(FEW * 0, FEW),
    "one item": stars(FEW, FEW * 0),
    "one rating": stars(FEW[:1], FEW[:1]),
    "three ratings": stars(FEW[:3], FEW[:3]),
    "times 1e6": with_values(VALUES * 1e6),
    "times 1e-6": with_values(VALUES * 1e-6),
    "times 1e30": with_values(VALUES * 1e30),
    "1e6 and 1e-6": with_values(np.where(ALTERNATE, 1e6, 1e-6)),
    "half negative": with_values(np.where(ALTERNATE, -VALUES, VALUES)),
    "counts up to 1e9": with_values(np.where(np.arange(len(VALUES)) % 97, 1 + ALTERNATE, 1e9)),
    "one of -1e6": with_one(-1e6),
    "one of 1e6": with_one(1e6),
}
# Algorithm to data that it cannot use, and why.
REFUSED = {
    "als-implicit": {"all 0": "expected some above 0", "all -2": "expected some likes, got -2 everywhere"},
    "culsh-implicit": {"all 0": "expected some above 0", "all -2": "expected some likes, got -2 everywhere"},
    "ease": {"all 0": "expected some above 0", "all -2": "expected some likes, got -2 everywhere"},
    "neighbors": {"all 0": "expected some above 0", "all -2": "expected some likes, got -2 everywhere"},
    "next": {"all 0": "expected some above 0", "all -2": "expected some likes, got -2 everywhere"},
    "nmf": {
        "all 0": "not all 0",
        "all -2": r"got -2; train als-implicit.*user row 0, item row",
        "half negative": r"got -5; train als-implicit.*user row",
    },
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_data_is_learned_or_refused_with_a_reason(algorithm: str, name: str) -> None:
    ratings, reason = DATA[name], REFUSED.get(algorithm, {}).get(name)
    if reason is not None:
        with pytest.raises(gpu.EngineError, match=reason):
            gpu.fit(ratings, params_of(algorithm), times=times_of(ratings))
        return
    model = gpu.fit(ratings, params_of(algorithm), times=times_of(ratings))
    users, items, values = ratings.coo()
    rows = rows_in_time(model, ratings.by_user, times_of(ratings))
    scores = gpu.evaluate.predict(model, rows, users, items)
    assert np.isfinite(scores).all()
    if not model.is_implicit:
        deviation = float(np.std(values.astype(np.float64)))
        error = gpu.evaluate.rmse(model, ratings.by_user, users, items, values)
        assert error <= 1.01 * deviation + 1e-6 * np.abs(values).max()


GIVEN: list[dict[str, Any]] = [
    {"regularization": 0},
    {"regularization": 1e6},
    {"bias_regularization": 1e6},
    {"alpha": 1e-6},
    {"alpha": 1e6},
    {"learning_rate": 0},
    {"learning_rate": 10},
    {"values": "counts"},
    {"values": "ratings"},
    {"biases": False},
    {"regularization": 0, "solver": "cholesky"},
    {"n_factors": 256, "n_epochs": 1},
    {"calibration": "none"},
    {"calibration": "none", "regularization": 0, "solver": "cholesky"},
    {"calibration": "none", "regularization": 0, "solver": "cholesky", "alpha": 1},
    {"calibration": "none", "biases": False},
]


def is_accepted(algorithm: str, given: dict[str, Any]) -> bool:
    """Whether the parameters go together; `tests.gpu.training.test_papers` has those that do not."""
    if "biases" in given and algorithm != "als":
        return algorithm == "sgd" and "calibration" in given
    if "calibration" in given and algorithm == "als-implicit":
        return "alpha" in given
    return algorithm != "nmf" or "solver" not in given


EXTREME = [
    (algorithm, given)
    for algorithm, known in ALGORITHMS.items()
    for given in GIVEN
    if given.keys() <= known.params.__dataclass_fields__.keys() and is_accepted(algorithm, given)
]
SAMPLE = ("all 1e9", "one user", "one rating", "three ratings", "half negative", "one of 1e6")


@pytest.mark.parametrize(("algorithm", "given"), EXTREME, ids=str)
def test_extreme_parameters_end_in_a_model_or_say_what_to_change(algorithm: str, given: dict[str, object]) -> None:
    params = params_of(algorithm, **given)
    for name in SAMPLE:
        try:
            model = gpu.fit(DATA[name], params, times=times_of(DATA[name]))
        except gpu.EngineError as error:
            assert ADVICE.search(str(error)), error
        else:
            rows = rows_in_time(model, DATA[name].by_user, times_of(DATA[name]))
            scores = gpu.evaluate.predict(model, rows, *DATA[name].coo()[:2])
            assert np.isfinite(scores).all(), name


@pytest.mark.parametrize(
    ("algorithm", "given", "advice"),
    [
        ("sgd", {"regularization": 1e3}, r"lower regularization \(1000\)$"),
        ("sgd", {"bias_regularization": 1e6}, r"lower bias_regularization \(1e\+06\)$"),
        (
            "esgd",
            {"learning_rate": 5, "regularization": 0.1},
            r"lower learning_rate \(5\) or raise regularization \(0\.1\)$",
        ),
    ],
)
def test_a_descent_that_diverges_says_which_parameter_was_too_large(
    algorithm: str, given: dict[str, float], advice: str
) -> None:
    with pytest.raises(gpu.TrainingDiverged, match=f"Training of {algorithm} diverged in epoch [123].*; {advice}"):
        gpu.fit(with_values(VALUES), params_of(algorithm, **given))


def test_a_step_of_the_weights_that_is_too_long_is_named() -> None:
    ratings = with_values(VALUES)
    with pytest.raises(gpu.TrainingDiverged, match=r"; lower weight_learning_rate \(10\)$"):
        gpu.fit(ratings, params_of("culsh", weight_learning_rate=10))


@pytest.mark.parametrize("step", [0, 1e-9, 1e-6])
@pytest.mark.parametrize("algorithm", ["sgd", "culsh", "culsh-implicit", "esgd"])
def test_steps_too_short_to_learn_anything_are_refused(algorithm: str, step: float) -> None:
    with pytest.raises(gpu.InvalidParams, match=f"Invalid learning_rate for {algorithm}: .*; raise learning_rate or"):
        gpu.fit(with_values(VALUES), params_of(algorithm, learning_rate=step))


@pytest.mark.parametrize(
    ("algorithm", "given"),
    [
        ("als", {"cg_tolerance": 1}),
        ("als-implicit", {"cg_tolerance": 1}),
        ("als-implicit", {"regularization_exponent": 2}),
    ],
)
def test_dead_factors_name_the_parameter_that_killed_them(algorithm: str, given: dict[str, float]) -> None:
    ((name, value),) = given.items()
    with pytest.raises(gpu.DeadFactors, match=rf"; lower {name} \({value}\)$"):
        gpu.fit(with_values(VALUES), params_of(algorithm, **given))
