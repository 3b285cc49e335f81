import numpy as np
import pytest

from gpu.data.model import Model
from gpu.data.ratings import NO_MIDDLE
from gpu.data.refit_rules import item_rules, user_rules
from gpu.data.signals import Calibration
from gpu.data.views import NO_WEIGHTS, arrays_of
from gpu.descent.params import CulshImplicitParams
from gpu.online.host import refit_items, refit_users
from tests import reference
from tests.gpu.models import dense, matrix_of, params_as, random_matrix, random_model, random_params, table_of

MANY_STEPS = 60
MIDDLES = pytest.mark.parametrize("middle", [NO_MIDDLE, 3.0])
USER, ITEM = 3, 7
KEYS = np.random.default_rng(4).integers(0, 2**63, 40).astype(np.uint64)


def implicit_model(n_users: int, n_items: int) -> Model:
    model = random_model(random_params(CulshImplicitParams), n_users, n_items)
    model.mean, model.calibration = -1.4, Calibration()
    model.user_baseline[:], model.item_baseline[:] = 0, 0
    return model


def empty_line(model: Model) -> np.ndarray:
    return np.full(model.n_items, refit_users.UNRATED)


def samples_of(
    model: Model, items: np.ndarray, values: np.ndarray, weights: np.ndarray = NO_WEIGHTS
) -> refit_users.Samples:
    line, arrays = empty_line(model), arrays_of(model)
    refit_users.fill_line(line, items, values, 0.0, arrays)
    pool = refit_users.ItemPool(np.flatnonzero(model.item_trained), model.item_trained, KEYS[: model.n_items])
    user = refit_users.UserRow(KEYS[0], items, items, values, weights.astype(np.float32))
    rules = user_rules(params_as(CulshImplicitParams, model))
    return refit_users.samples_of(user, line, arrays, pool, rules)


def test_the_newest_ratings_stay_in_the_order_of_items() -> None:
    items, values = np.arange(10, 16, dtype=np.int32), np.arange(6, dtype=np.float32)
    positions = np.array([50, 3, 40, 7, 60, 1])
    kept_items, kept_values, _ = refit_users.newest(items, values, positions, 3)
    assert kept_items.tolist() == [10, 12, 14]
    assert kept_values.tolist() == [0, 2, 4]
    assert refit_users.newest(items, values, positions, 6)[0].tolist() == items.tolist()


def test_negatives_are_trained_items_that_are_not_rated_and_never_change() -> None:
    model = implicit_model(6, 20)
    model.item_trained[15:] = False
    items, values = np.array([1, 2, 9, 17], dtype=np.int32), np.ones(4, dtype=np.float32)
    samples = samples_of(model, items, values)
    drawn = samples.items[samples.targets == 0]
    assert samples.items[samples.targets == 1].tolist() == [1, 2, 9]
    assert len(drawn) == 3 * params_as(CulshImplicitParams, model).n_negatives
    assert not np.isin(drawn, items).any()
    assert (drawn < 15).all()
    fewer = samples_of(model, items[[0, 2]], values[:2])
    assert set(fewer.items[fewer.targets == 0].tolist()) <= set(drawn.tolist()) | {2}


def test_a_dislike_is_a_negative_itself() -> None:
    model = implicit_model(6, 20)
    items, values = np.array([1, 2, 9], dtype=np.int32), np.array([5, 2, 3], dtype=np.float32)
    everything = samples_of(model, items, values)
    model.calibration = Calibration(middle=3.0)
    samples, n_draws = samples_of(model, items, values), params_as(CulshImplicitParams, model).n_negatives
    assert samples.items[n_draws + 1] == 2
    assert samples.targets.tolist() == [1] + [0] * n_draws + [0, 1] + [0] * n_draws
    drawn = np.delete(np.arange(len(everything.items)), np.arange(n_draws + 2, 2 * n_draws + 2))
    assert samples.items.tolist() == everything.items[drawn].tolist()  # those beside likes are drawn as before
    assert not np.isin(samples.items[samples.targets == 0], [1, 9]).any()


def test_somebody_who_has_rated_everything_gets_no_negatives() -> None:
    model = implicit_model(6, 5)
    samples = samples_of(model, np.arange(5, dtype=np.int32), np.ones(5, dtype=np.float32))
    assert samples.targets.tolist() == [1] * 5


@MIDDLES
def test_many_steps_reach_the_optimum_for_a_user(middle: float) -> None:
    model, matrix = implicit_model(6, 20), random_matrix(6, 20, 0.3)
    model.calibration = Calibration(middle=middle)
    items = np.flatnonzero(~np.isnan(matrix[USER])).astype(np.int32)
    samples = samples_of(model, items, matrix[USER, items].astype(np.float32))
    expected = reference.user_terms(matrix, dense(model), USER, samples.items)
    np.testing.assert_allclose(samples.offsets, expected, rtol=1e-5, atol=1e-5)
    rules = user_rules(params_as(CulshImplicitParams, model))._replace(n_steps=MANY_STEPS)
    found = refit_users.fit_user(samples, arrays_of(model), rules)
    z = np.column_stack([model.item_factors[samples.items], np.ones(len(samples.items))]).astype(np.float64)
    ridge = np.full(z.shape[1], rules.factor * len(z) + rules.factor_prior)
    ridge[-1] = rules.bias * len(z) + rules.bias_prior
    gradient = reference.logistic_gradient(z, samples.offsets, samples.targets, ridge, found)
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


@MIDDLES
def test_many_steps_reach_the_optimum_for_an_item(middle: float) -> None:
    model, matrix = implicit_model(12, 10), random_matrix(12, 10, 0.4)
    model.calibration = Calibration(middle=middle)
    table, rules = table_of(matrix), item_rules(params_as(CulshImplicitParams, model))._replace(n_steps=MANY_STEPS)
    raters, by_key = table.raters(ITEM), np.argsort(KEYS[:12])
    pool = refit_items.UserPool(by_key, KEYS[:12][by_key])
    likers = refit_items.likers(ITEM, raters, table.rows, np.float32(middle), np.float32(1))
    assert likers.tolist() == raters[matrix[raters, ITEM] >= middle].tolist()
    absent, _ = refit_items.draw_absences(KEYS[20], likers, raters, KEYS[:12], pool, rules)
    assert len(absent) == rules.n_negatives * len(likers)
    assert not np.isin(absent, raters).any()
    found = refit_items.fit_item(ITEM, raters, absent, table.rows, arrays_of(model), rules)
    users = np.concatenate([raters, absent])
    arrays = dense(model)
    x = reference.item_observations(matrix_of(table), arrays, ITEM, users)
    ridge = (rules.factor, rules.factor_prior, rules.bias, rules.bias_prior, rules.weight, rules.weight_prior)
    diagonal = reference.item_ridge(arrays, ITEM, matrix, users, ridge)
    labels = np.where(np.arange(len(users)) < len(raters), matrix[users, ITEM] >= middle, 0)
    offsets = model.mean + arrays["user_bias"][users]
    np.testing.assert_allclose(reference.logistic_gradient(x, offsets, labels, diagonal, found), 0, atol=1e-6)


def test_a_whole_weight_repeats_an_observation() -> None:
    """In the sums; the ridge counts every rating once."""
    model, matrix = implicit_model(12, 10), random_matrix(12, 10, 0.4)
    items = np.flatnonzero(~np.isnan(matrix[USER])).astype(np.int32)
    rules = user_rules(params_as(CulshImplicitParams, model))._replace(n_steps=MANY_STEPS)
    samples = samples_of(model, items, matrix[USER, items].astype(np.float32), 1 + items % 3)
    n = samples.counts.sum()
    repeats = np.rint(samples.weights).astype(int)
    assert len(set(repeats)) > 1
    z = np.column_stack([model.item_factors[samples.items], np.ones(len(samples.items))]).astype(np.float64)
    ridge = np.append(np.full(z.shape[1] - 1, rules.factor * n + rules.factor_prior), rules.bias * n + rules.bias_prior)
    found = refit_users.fit_user(samples, arrays_of(model), rules)
    z, offsets, targets = (np.repeat(column, repeats, axis=0) for column in (z, samples.offsets, samples.targets))
    np.testing.assert_allclose(reference.logistic_gradient(z, offsets, targets, ridge, found), 0, atol=1e-6)


def test_a_whole_weight_repeats_an_observer() -> None:
    model, matrix = implicit_model(12, 10), random_matrix(12, 10, 0.4)
    table, rules = table_of(matrix), item_rules(params_as(CulshImplicitParams, model))._replace(n_steps=MANY_STEPS)
    raters = table.raters(ITEM)
    absent = np.setdiff1d(np.arange(12), raters)
    users = np.concatenate([raters, absent])
    repeats = 1 + np.arange(len(users)) % 3
    weights = repeats.astype(np.float32)
    found = refit_items.fit_item(ITEM, raters, absent, table.rows, arrays_of(model), rules, weights)
    arrays = dense(model)
    ridge = (rules.factor, rules.factor_prior, rules.bias, rules.bias_prior, rules.weight, rules.weight_prior)
    diagonal = reference.item_ridge(arrays, ITEM, matrix, users, ridge)
    x = reference.item_observations(matrix_of(table), arrays, ITEM, users)
    labels, offsets = (np.arange(len(users)) < len(raters)).astype(float), model.mean + arrays["user_bias"][users]
    x, offsets, labels = (np.repeat(column, repeats, axis=0) for column in (x, offsets, labels))
    np.testing.assert_allclose(reference.logistic_gradient(x, offsets, labels, diagonal, found), 0, atol=1e-6)


def test_a_step_never_runs_away() -> None:
    """From a start where σ(1 − σ) is next to nothing, a plain Newton step would leap by hundreds."""
    model = implicit_model(6, 20)
    model.item_bias[:] = 12
    items = np.array([1, 2, 9], dtype=np.int32)
    samples = samples_of(model, items, np.ones(3, dtype=np.float32))
    found = refit_users.fit_user(samples, arrays_of(model), user_rules(params_as(CulshImplicitParams, model)))
    assert np.abs(found).max() < 20


@pytest.mark.parametrize("n_trained", [0, 1])
def test_absences_need_somebody_to_be_absent(n_trained: int) -> None:
    raters, pool = (
        np.array([0, 2], dtype=np.int32),
        refit_items.UserPool(np.zeros(n_trained, np.int64), KEYS[:n_trained]),
    )
    rules = item_rules(random_params(CulshImplicitParams))
    assert len(refit_items.draw_absences(KEYS[0], raters, raters, KEYS, pool, rules).users) == 0
