"""What a training takes from its data: scales, counts, dislikes; and that defaults mean the same on every scale."""

import dataclasses
import math

import numpy as np
import pytest

import gpu
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.base.backend import Backend
from gpu.data.baselines import residual_deviation, shrunk_biases
from gpu.data.calibration import calibrate, kind_of
from gpu.data.param_kinds import Params
from gpu.data.rating_table import RatingTable
from gpu.data.ratings import NO_MIDDLE, Ratings
from gpu.data.signals import Calibration, before_calibration, preferences, signals, signals_of
from gpu.descent.params import CulshImplicitParams, CulshParams, EsgdParams, SgdParams
from gpu.online.model import HostModel
from tests.data import planted, split

EXPLICIT = [
    AlsParams(n_factors=6, n_epochs=5, precision="float32"),
    SgdParams(n_factors=6, n_epochs=8, deterministic=True),
    CulshParams(n_factors=6, n_neighbors=4, n_bits=256, n_epochs=8, deterministic=True),
    EsgdParams(n_factors=6, n_epochs=8),
]
SCALES = [(0.25, 0.0), (20.0, 0.0), (1.0, -3.0), (1e6, 0.0), (1e-6, 0.0)]


def with_values(ratings: Ratings, factor: float, offset: float) -> Ratings:
    users, items, values = ratings.coo()
    return Ratings.from_coo(users, items, values * factor + offset, (ratings.n_users, ratings.n_items))


@pytest.mark.parametrize("params", EXPLICIT, ids=lambda params: params.algorithm)
@pytest.mark.parametrize(("factor", "offset"), SCALES)
def test_errors_are_the_same_in_units_of_the_scale(
    params: Params, factor: float, offset: float, backend: Backend
) -> None:
    train, test = split(planted())
    errors = []
    for scale in ((1.0, 0.0), (factor, offset)):
        known, held_out = with_values(train, *scale), with_values(test, *scale)
        reports: list[gpu.EpochReport] = []
        model = gpu.fit(known, params, backend=backend, test=held_out, on_epoch=reports.append)
        error = gpu.evaluate.rmse(model, known.by_user, *held_out.coo())
        assert reports[-1].metrics["test_rmse"] == pytest.approx(error, rel=1e-3)
        errors.append(error / scale[0])
    assert errors[1] == pytest.approx(errors[0], rel=5e-3 if backend.name == "device" else 1e-4)


@pytest.mark.parametrize("params", EXPLICIT, ids=lambda params: params.algorithm)
@pytest.mark.parametrize(("factor", "offset"), SCALES[:3])
def test_refits_mean_the_same_on_every_scale(params: Params, factor: float, offset: float) -> None:
    """Of users and items that training has not seen, and of anonymous users."""
    estimates = []
    for scale in ((1.0, 0.0), (factor, offset)):
        model = gpu.fit(with_values(planted(), *scale), params)
        table, generator = RatingTable(303, 122), np.random.default_rng(4)
        users, items = np.repeat([300, 301, 302], 30), np.tile(np.append(np.arange(28), [120, 121]), 3)
        values = (generator.integers(1, 6, len(users)) * scale[0] + scale[1]).astype(np.float32)
        table.apply(users, items, values, np.zeros(90), np.arange(90))
        keys = np.arange(303, dtype=np.uint64), np.arange(122, dtype=np.uint64)
        online = HostModel(model, table, *keys)
        assert online.settle()
        pairs = np.repeat([300, 301], 122), np.tile(np.arange(122), 2)
        passing = online.fold_in(items[:10], values[:10])
        scores = [*gpu.evaluate.predict(model, table.rows, *pairs), *passing.biases + model.mean]
        estimates.append((np.array(scores, np.float64) - scale[1]) / scale[0])
    np.testing.assert_allclose(estimates[1], estimates[0], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("params", EXPLICIT, ids=lambda params: params.algorithm)
def test_the_scale_of_a_model_is_that_of_its_ratings(params: Params) -> None:
    for ratings in (planted(), with_values(planted(60, 40, 20), 0.1, 0.3)):
        assert gpu.fit(ratings, params).scale == ratings.scale


def test_the_unit_is_what_shrunk_biases_leave() -> None:
    ratings = planted()
    unit = residual_deviation(ratings, shrunk_biases(ratings))
    assert calibrate(ratings, SgdParams()).unit == pytest.approx(unit)
    assert calibrate(with_values(ratings, 20, 7), SgdParams()).unit == pytest.approx(20 * unit, rel=1e-5)


@pytest.mark.parametrize("params", [*EXPLICIT, AlsImplicitParams(n_factors=6), CulshImplicitParams(n_factors=6)])
def test_equal_ratings_are_learned(params: Params, backend: Backend) -> None:
    users, items, _ = planted().coo()
    model = gpu.fit(Ratings.from_coo(users, items, np.full(len(users), 4.0)), params, backend=backend)
    assert all(np.isfinite(array).all() for array in model.arrays.values())
    if not params.is_implicit:
        assert gpu.evaluate.predict(model, planted().by_user, users[:9], items[:9]) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 1, 1, 1], "counts"),
        ([5, 5, 5], "counts"),
        ([1, 2, 3, 4, 5, 4, 3, 5], "ratings"),
        ([0.5, 3.5, 4, 4.5, 5, 2], "ratings"),
        ([-1, 1, 1, 1], "ratings"),
        ([-3, -3], "ratings"),
        ([1, 5, 1, 1], "ratings"),
        ([1, 1, 1, 2, 3, 1, 4], "counts"),
        ([3, 8, 12, 40, 900, 20, 7], "counts"),
        ([0, 0, 0, 1], "counts"),
        ([90, 30, 75, 60, 100, 0], "ratings"),
    ],
)
def test_ratings_and_counts_are_told_apart(values: list[float], kind: str) -> None:
    assert kind_of(np.array(values, dtype=np.float32)) == kind


@pytest.mark.parametrize("params", [AlsImplicitParams(), AlsImplicitParams(values="counts", confidence="log")])
def test_signals_in_pieces_are_those_of_all_values_at_once(params: AlsImplicitParams, monkeypatch) -> None:
    ratings = planted()
    calibration = calibrate(ratings, params)
    monkeypatch.setattr("gpu.data.signals.PIECE", 7)
    found = signals_of(ratings, calibration)
    for rows, given in ((found.by_user, ratings.by_user), (found.by_item, ratings.by_item)):
        np.testing.assert_array_equal(rows.values, signals(given.values, calibration), strict=True)


def test_signals_of_ratings_do_not_depend_on_the_scale() -> None:
    found = []
    for factor, offset in ((1.0, 0.0), *SCALES):
        ratings = with_values(planted(), factor, offset)
        known = calibrate(ratings, AlsImplicitParams())
        found.append(signals(ratings.by_user.values, known))
        assert known.values == "ratings"
        assert known.density == pytest.approx(len(ratings) / (300 * 120))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=2e-3, atol=1e-4)
    assert found[0].min() < 0 < found[0].max()
    assert found[0][found[0] > 0].mean() == pytest.approx(1, rel=1e-3)


def test_low_ratings_are_dislikes_and_lower_ones_surer() -> None:
    known = Calibration(values="ratings", middle=3.0, scale=(1.0, 5.0))
    found = signals(np.array([-1e6, 1, 2, 3, 4, 5, 1e6]), known)
    assert found.tolist() == [-9 / 16, -9 / 16, -5 / 16, 1 / 16, 5 / 16, 9 / 16, 9 / 16]


def test_large_counts_are_damped() -> None:
    users, items, _ = planted().coo()
    counts = np.ones(len(users))
    counts[::7], counts[3] = 2, 1e9
    known = calibrate(Ratings.from_coo(users, items, counts), AlsImplicitParams())
    assert (known.values, known.is_damped, known.middle) == ("counts", True, 0)
    one, many = signals(np.array([1, 1e9]), known)
    assert many / one == pytest.approx(1 + math.log(1e9))
    linear = calibrate(Ratings.from_coo(users, items, counts), AlsImplicitParams(confidence="linear"))
    assert not linear.is_damped


@pytest.mark.parametrize("confidence", ["linear", "log"])
def test_a_count_below_zero_is_a_dislike(confidence: str) -> None:
    users, items, _ = planted().coo()
    counts = 1.0 + np.arange(len(users)) % 4
    liked = Ratings.from_coo(users, items, counts)
    mixed = Ratings.from_coo(users, items, np.where(np.arange(len(users)) % 5, counts, -counts))
    params = AlsImplicitParams(values="counts", confidence=confidence)  # type: ignore[arg-type]
    known = calibrate(mixed, params)
    assert calibrate(liked, params).middle == known.middle == 0
    older = dataclasses.replace(known, middle=NO_MIDDLE)
    assert signals(np.array([-3.0, 0.0]), older).tolist() == [0, 0]
    found = signals(np.array([-3.0, -1.0, 0.0, 1.0, 3.0]), known)
    assert found[:2].tolist() == (-found[:2:-1]).tolist()
    assert found[0] < found[1] < 0 == found[2]
    disliked, liked_x = preferences(np.array([-3.0, 3.0]), known)
    assert disliked == pytest.approx(-0.25 * liked_x)


def test_alpha_and_lambda_come_from_the_data_unless_given() -> None:
    ratings = planted()
    density = len(ratings) / (300 * 120)
    known = calibrate(ratings, AlsImplicitParams(values="counts"))
    assert known.alpha == pytest.approx(density**-0.5)
    assert known.regularization == pytest.approx(0.05 * known.alpha)
    given = calibrate(ratings, AlsImplicitParams(alpha=3, regularization=0.2))
    assert (given.alpha, given.regularization) == (3, 0.2)
    many = Ratings.from_coo(np.arange(40_000), np.arange(40_000) % 20_000, np.ones(40_000))
    known = calibrate(many, AlsImplicitParams())
    assert known.regularization == pytest.approx(0.45 * known.alpha * (40_000**-0.5 + 20_000**-0.5))


@pytest.mark.parametrize("params", [AlsImplicitParams(n_factors=8), CulshImplicitParams(n_factors=8, n_epochs=8)])
def test_held_out_dislikes_are_not_relevant(params: Params, backend: Backend) -> None:
    train, test = split(planted())
    model = gpu.fit(train, params, backend=backend)
    users, items, values = test.coo()
    liked = values >= model.middle
    assert 0.05 < np.mean(~liked) < 0.6
    only = Ratings.from_coo(users[liked], items[liked], values[liked], (300, 120))
    assert gpu.evaluate.ranking(model, train.by_user, test) == gpu.evaluate.ranking(model, train.by_user, only)


def test_a_dislike_turns_a_list_around(backend: Backend) -> None:
    """Two tastes: who dislikes an item of one is shown the other, who likes it the same."""
    generator = np.random.default_rng(0)
    users = np.repeat(np.arange(200), 20)
    items = np.concatenate([generator.permutation(60)[:20] for _ in range(200)])
    values = np.where(users % 2 == items // 30, 5.0, 1.0)
    model = gpu.fit(Ratings.from_coo(users, items, values, (200, 60)), AlsImplicitParams(n_factors=4), backend=backend)
    online = HostModel(model, RatingTable(200, 60), np.arange(200, dtype=np.uint64), np.arange(60, dtype=np.uint64))
    assert online.settle()
    for value, taste in ((5.0, 0), (1.0, 1)):
        vector = online.fold_in(np.array([0, 1, 2]), np.full(3, value, np.float32)).factors[0]
        scores = model.item_factors @ vector
        scores[:3] = -np.inf
        assert (np.argsort(-scores)[:10] // 30 == taste).mean() >= 0.9


def test_models_from_before_take_values_as_they_are() -> None:
    known = before_calibration({"alpha": 1.5, "regularization": 0.015, "n_factors": 4})
    assert (known.alpha, known.regularization, known.unit, known.prior) == (1.5, 0.015, 1, 0)
    values = np.array([0, 0.5, 3, 400], dtype=np.float32)
    np.testing.assert_array_equal(signals(values, known), values)
    assert dataclasses.replace(known, alpha=1.0, regularization=0.0) == Calibration()
