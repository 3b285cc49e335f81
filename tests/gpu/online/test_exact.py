"""Refits of ALS models: what the training's own half-iteration gives, from plain NumPy and from the training itself."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import gpu
from gpu.als import host as half
from gpu.als import objective
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.data.calibration import in_units
from gpu.data.param_kinds import Params
from gpu.data.ratings import Ratings
from gpu.data.signals import signals, signals_of
from gpu.nmf.params import NmfParams
from gpu.online import explain
from gpu.online.host import exact
from gpu.online.model import HostModel
from gpu.ranking import topn
from tests import data, reference
from tests.gpu.models import EXACT_KINDS, matrix_of, random_matrix, random_model, table_of
from tests.gpu.online_models import (
    ITEM_KEYS,
    N_ITEMS,
    N_USERS,
    TRAINED_ITEMS,
    TRAINED_USERS,
    USER_KEYS,
    Event,
    OnlineModel,
    assert_same_state,
    history_of,
    settled,
)

SMALL: dict[str, Any] = {"n_factors": 8, "n_epochs": 4, "solver": "cholesky"}
PROBLEMS = [
    AlsParams(**SMALL),
    AlsParams(**SMALL, biases=False),
    AlsImplicitParams(**SMALL, regularization_exponent=0.7),
]
TRAINED = pytest.mark.parametrize("params", PROBLEMS, ids=["biases", "plain", "implicit"])
PAPERS = [
    AlsParams(**SMALL, biases=False, calibration="none"),
    AlsImplicitParams(**SMALL, alpha=1.5, regularization=0.3, calibration="none"),
]
NEW = np.array([3, 50, 119])


def host_model_of(model: gpu.Model, ratings: Ratings) -> HostModel:
    matrix = np.full((ratings.n_users, ratings.n_items), np.nan)
    users, items, values = ratings.coo()
    matrix[users, items] = values
    return HostModel(model, table_of(matrix), ratings.user_keys, ratings.item_keys)


def tables_of(model: gpu.Model, problem: objective.AlsObjective) -> tuple[np.ndarray, np.ndarray]:
    """(users, items) as `gpu.als.trainer` has them: in multiples of the unit."""
    sides, unit = ((model.user_factors, model.user_bias), (model.item_factors, model.item_bias)), model.calibration.unit
    users, items = (
        np.column_stack([factors / np.float32(unit**0.5), bias / np.float32(unit)]) for factors, bias in sides
    )
    return users[:, : objective.width(problem)], items[:, : objective.width(problem)]


def columns_of(matrix: np.ndarray, model: gpu.Model) -> list[tuple[np.ndarray, np.ndarray]]:
    """(rows, what is learned of ratings) of each column."""
    rated = [np.flatnonzero(~np.isnan(column)) for column in matrix.T]
    columns = [(rows, column[rows].astype(np.float32)) for rows, column in zip(rated, matrix.T, strict=True)]
    if not model.is_implicit:
        return [(rows, np.clip(values, *model.scale)) for rows, values in columns]
    return [(rows, signals(values, model.calibration)) for rows, values in columns]


@pytest.mark.parametrize("params", [*PROBLEMS, *PAPERS], ids=["biases", "plain", "implicit", "paper", "paper of likes"])
def test_refitting_a_trained_user_gives_what_training_gave(params: Params) -> None:
    ratings = data.planted()
    model = gpu.fit(ratings, params)  # whose last half solved the users
    users, bias = model.user_factors.copy(), model.user_bias.copy()
    online = host_model_of(model, ratings)
    online.touch(np.arange(ratings.n_users))
    assert online.settle()
    np.testing.assert_allclose(model.user_factors, users, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(model.user_bias, bias, rtol=1e-3, atol=1e-5)


@TRAINED
def test_refitting_an_item_gives_what_training_would(params: AlsParams | AlsImplicitParams) -> None:
    ratings = data.planted()
    model = gpu.fit(ratings, params)
    known = model.calibration
    problem = objective.problem_of(in_units(ratings, known.unit), params, known)
    learned = signals_of(ratings, known) if params.is_implicit else in_units(ratings, known.unit)
    users, items = tables_of(model, problem)
    expected = items.copy()
    half.solve(half.prepare(learned.by_item, ratings.n_users, problem), expected, users, problem)
    model.item_trained[NEW] = False
    model.item_factors[NEW], model.item_bias[NEW] = 0, 0
    online = host_model_of(model, ratings)
    assert online.settle()
    np.testing.assert_allclose(tables_of(model, problem)[1][NEW], expected[NEW], rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(tables_of(model, problem)[0], users)


@pytest.mark.parametrize("kind", EXACT_KINDS)
@pytest.mark.parametrize("lowest", [-2, 0, 1])
def test_rows_solve_their_normal_equations(kind: type[Params], lowest: int) -> None:
    ratings = random_matrix(N_USERS, 12, 0.6) - 1 + lowest
    online_model = OnlineModel(kind, history_of(ratings))
    model = online_model.online.model
    trained_users, n_trained = tables_of(model, problem_of(model))[0][model.user_trained], model.user_trained.sum()
    online_model.online.touch(np.arange(N_USERS))
    online_model.online.settle()
    problem, matrix = problem_of(model), matrix_of(online_model.table)
    users, items = tables_of(model, problem)
    rows = columns_of(matrix[:, :TRAINED_ITEMS].T, model)
    expected = reference.als_half(rows, users, items[:TRAINED_ITEMS], problem)
    if model.is_implicit:  # who likes nothing keeps the usual scores, but for what they dislike
        usual = items[:TRAINED_ITEMS].astype(np.float64)
        for user, (rated, values) in enumerate(rows):
            a, b = reference.als_system(rated, values, items[:TRAINED_ITEMS], problem)
            if len(rated) and not b.any():
                whole = usual.T @ usual + reference.als_ridge(len(rated), TRAINED_ITEMS, problem) * np.eye(len(a))
                expected[user] = np.linalg.solve(a, whole @ usual.sum(axis=0)) / (usual @ usual.sum(axis=0)).max()
    np.testing.assert_allclose(users, expected, rtol=1e-4, atol=1e-5)
    columns = columns_of(matrix[:, TRAINED_ITEMS:], model)
    for (raters, values), found in zip(columns, items[TRAINED_ITEMS:], strict=True):
        a, b = reference.als_system(raters, values, users, problem)
        if model.is_implicit:  # the sum over all users is that of the snapshot
            a += trained_users.T @ trained_users - users.T.astype(np.float64) @ users
            ridges = [reference.als_ridge(len(raters), n, problem) for n in (n_trained, N_USERS)]
            a += (ridges[0] - ridges[1]) * np.eye(len(a))
        np.testing.assert_allclose(found, np.linalg.solve(a, b), rtol=1e-4, atol=1e-5)


def problem_of(model: gpu.Model) -> objective.AlsObjective:
    assert isinstance(model.params, AlsParams | AlsImplicitParams)
    params = dataclasses.replace(model.params, solver="cholesky")
    return objective.problem_of(data.planted(4, 4, 2), params, model.calibration)._replace(mean=model.mean)


@pytest.mark.parametrize("kind", EXACT_KINDS)
def test_slices_change_nothing(kind: type[Params], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = settled(kind)
    monkeypatch.setattr(exact, "ADDS_PER_SLICE", 1)
    sliced = OnlineModel(kind, history_of(random_matrix(N_USERS, 12, 0.5)))
    sliced.online.touch(np.arange(N_USERS))
    n_slices = 1
    while not sliced.online.settle(0.0):
        n_slices += 1
    assert n_slices > N_USERS + 3  # rows
    assert_same_state(whole, sliced)


@pytest.mark.parametrize("kind", [*EXACT_KINDS, NmfParams])
def test_short_rows_share_a_slice(kind: type[Params]) -> None:
    whole, sliced = settled(kind), OnlineModel(kind, history_of(random_matrix(N_USERS, 12, 0.5)))
    sliced.online.touch(np.arange(N_USERS))
    n_slices = 1
    while not sliced.online.settle(0.0):
        n_slices += 1
    assert n_slices <= 8  # for sums over both sides, eight users and three new items
    assert_same_state(whole, sliced)


@pytest.mark.parametrize("kind", EXACT_KINDS)
def test_a_refit_that_has_begun_is_done_again_for_what_came_in_between(
    kind: type[Params], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "ADDS_PER_SLICE", 1)
    history = {(6, item): 4.0 for item in range(9)}
    changed = {**history, (6, 2): 1.0, (7, 3): 2.0}
    direct = OnlineModel(kind, changed)
    direct.online.settle()
    for n_slices in range(10):
        online_model = OnlineModel(kind, history)
        for _ in range(n_slices):
            online_model.online.settle(0.0)
        online_model.learn([Event(6, 2, 1.0), Event(7, 3, 2.0)])
        online_model.online.settle()
        assert_same_state(online_model, direct)


@pytest.mark.parametrize("kind", EXACT_KINDS)
def test_without_regularization_a_short_row_still_has_a_solution(kind: type[Params]) -> None:
    online_model = OnlineModel(kind, {(6, 4): 5.0, (7, 10): 2.0, (0, 10): 1.0})
    model = online_model.online.model
    refits: Any = online_model.online._refits
    refits._objective = refits._objective._replace(regularization=0.0)
    online_model.online.settle()
    assert all(np.isfinite(array).all() for array in model.arrays.values())
    assert np.abs(model.user_factors[6]).max() < 10


@pytest.mark.parametrize("kind", EXACT_KINDS)
def test_anonymous_ratings_give_what_a_known_user_has(kind: type[Params]) -> None:
    online_model = settled(kind)
    items, values, _, _ = online_model.table.row(3)
    folded = online_model.online.fold_in(items, values)
    known = topn.users_of(online_model.online.model, np.array([3]))
    np.testing.assert_array_equal(folded.factors, known.factors)
    np.testing.assert_array_equal(folded.biases, known.biases)
    nobody = online_model.online.fold_in(items[:0], values[:0])
    assert not nobody.factors.any()


@pytest.mark.parametrize("kind", EXACT_KINDS)
def test_shares_of_all_ratings_add_up_to_the_score(kind: type[Params]) -> None:
    online_model = settled(kind)
    model, targets = online_model.online.model, np.arange(12)
    for user in range(N_USERS):
        items, values, _, _ = online_model.table.row(user)
        for gram in (online_model.online.gram, None):
            shares = explain.shares(model, items, values, targets, gram)
            expected = model.item_factors[targets] @ model.user_factors[user]
            np.testing.assert_allclose(shares.sum(axis=1), expected, rtol=1e-4, atol=1e-5)
        assert not shares[:, ~model.item_trained[items]].any()


class Given:
    """Priors by item, which the test may change."""

    most = 2

    def __init__(self, numbers: np.ndarray) -> None:
        self.numbers = numbers

    def of(self, items: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(self.numbers[items])


def followed(params: Params, history: np.ndarray, priors: Given) -> HostModel:
    model = random_model(params, TRAINED_USERS, TRAINED_ITEMS)
    online = HostModel(model, table_of(history), USER_KEYS, ITEM_KEYS, priors=priors)
    online.touch(np.arange(N_USERS))
    online.renew(np.arange(N_ITEMS))
    return online


@pytest.mark.parametrize("params", [AlsParams(n_factors=6), AlsImplicitParams(n_factors=6)], ids=["als", "implicit"])
def test_new_items_are_drawn_toward_their_priors(params: Params) -> None:
    history = random_matrix(N_USERS, N_ITEMS, 0.5)
    history[:, N_ITEMS - 1] = np.nan
    priors = Given(np.random.default_rng(2).standard_normal((N_ITEMS, 7)))
    priors.numbers[:, -1] *= not params.is_implicit
    online = followed(params, history, priors)
    model, problem = online.model, problem_of(online.model)
    snapshot = model.user_factors[model.user_trained].astype(np.float64)
    assert online.settle()
    users, items = tables_of(model, problem)
    np.testing.assert_array_equal(
        np.column_stack([model.item_factors, model.item_bias])[-1], priors.numbers[-1].astype(np.float32)
    )
    columns = columns_of(history[:, TRAINED_ITEMS:-1], model)
    own_priors = priors.numbers[TRAINED_ITEMS:-1]
    for (raters, values), found, prior in zip(columns, items[TRAINED_ITEMS:-1], own_priors, strict=True):
        a, b = reference.als_system(raters, values, users, problem)
        ridge = reference.als_ridge(len(raters), N_USERS, problem)
        if model.is_implicit:  # the sum over all users is that of the snapshot
            own = reference.als_ridge(len(raters), TRAINED_USERS, problem)
            a += snapshot.T @ snapshot - users.T.astype(np.float64) @ users + (own - ridge) * np.eye(len(a))
            ridge = own
        expected = np.linalg.solve(a, b + ridge * prior[: len(b)])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("params", [AlsParams(n_factors=6), AlsImplicitParams(n_factors=6)], ids=["als", "implicit"])
def test_a_changed_prior_leaves_no_trace(params: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    history, last = random_matrix(N_USERS, N_ITEMS, 0.5), np.random.default_rng(3).standard_normal((N_ITEMS, 7))
    fresh = followed(params, history, Given(last))
    assert fresh.settle()
    monkeypatch.setattr(exact, "ADDS_PER_SLICE", 1)
    changing = followed(params, history, priors := Given(np.zeros_like(last)))
    for item in range(TRAINED_ITEMS, N_ITEMS):
        while not changing.settle(0.0):
            pass
        priors.numbers[item] = last[item]
        changing.renew(np.array([0, item]))
    assert changing.settle()
    for name, array in fresh.model.arrays.items():
        np.testing.assert_array_equal(changing.model.arrays[name], array, err_msg=name)
