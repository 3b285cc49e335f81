from typing import Any

import numpy as np
import pytest

from gpu.als.objective import problem_of
from gpu.als.params import AlsImplicitParams
from gpu.data.model import NO_NEIGHBOR, Model
from gpu.data.param_kinds import GradientParams, Params
from gpu.data.ratings import Rows
from gpu.data.refit_rules import user_rules
from gpu.data.signals import Calibration, signals
from gpu.descent.params import CulshImplicitParams, CulshParams, SgdParams
from gpu.ease.params import EaseParams
from gpu.online import explain
from gpu.training import evaluate
from tests import reference
from tests.gpu.models import KINDS, params_as, random_matrix, random_model, random_params, ratings_of

ITEMS = np.array([0, 2, 5, 7])
VALUES = np.array([5, 1, 4, 3], dtype=np.float32)


def reasons(model: Model, target: int, n: int) -> Any:  # so that `pytest.approx` may stand on the other side
    """For one target; for several they are the same."""
    (found,) = explain.reasons(model, ITEMS, VALUES, [target], n)
    of_two: Any = explain.reasons(model, ITEMS, VALUES, [3, target], n)
    assert of_two[1] == [(item, pytest.approx(share)) for item, share in found]
    return found


def test_rated_neighbors_that_speak_for_the_target_come_first() -> None:
    model = random_model(random_params(CulshParams), 3, 10)
    model.neighbors[9] = [5, 3, 0, 2]
    model.explicit_weights[9] = [0.5, 9.0, 0.2, 0.4]
    found = reasons(model, 9, 5)
    baseline = np.sum(VALUES - model.mean) / (4 + user_rules(params_as(GradientParams, model)).baseline_prior)
    residuals = VALUES - model.mean - baseline - model.item_baseline[ITEMS]
    expected = {0: 0.2 * residuals[0], 2: 0.4 * residuals[1], 5: 0.5 * residuals[2]}
    assert found == [
        (item, pytest.approx(share / 3**0.5, rel=1e-5))
        for item, share in sorted(expected.items(), key=lambda entry: -entry[1])
        if share > 0
    ]


def test_every_like_of_an_implicit_model_counts_as_one() -> None:
    model = random_model(random_params(CulshImplicitParams), 3, 10)
    model.neighbors[9] = [5, 7, NO_NEIGHBOR, 1]
    model.explicit_weights[9] = [0.5, 0.7, 9.0, 9.0]
    found = reasons(model, 9, 5)
    assert found == [(7, pytest.approx(0.7 / 2**0.5)), (5, pytest.approx(0.5 / 2**0.5))]


def test_a_disliked_neighbor_speaks_against_what_a_liked_one_speaks_for() -> None:
    model = random_model(random_params(CulshImplicitParams), 3, 10)
    model.neighbors[9] = [5, 2, NO_NEIGHBOR, 0]  # rated 4, 1 and 5
    model.explicit_weights[9] = [0.5, 0.7, 9.0, -0.1]
    assert reasons(model, 9, 5) == [(5, pytest.approx(0.5 / 3**0.5))]
    model.calibration = Calibration()
    assert reasons(model, 9, 5) == [(2, pytest.approx(0.7 / 3**0.5)), (5, pytest.approx(0.5 / 3**0.5))]


def test_a_dislike_pulls_the_other_way_where_nothing_else_speaks() -> None:
    model = random_model(random_params(CulshImplicitParams, n_neighbors=0), 3, 10)
    model.mean, model.item_bias[:] = 0.0, 0.0
    disliked = explain.shares(model, ITEMS, np.full(4, 2, np.float32), np.array([9]))
    liked = explain.shares(model, ITEMS, np.full(4, 5, np.float32), np.array([9]))
    assert liked.any()
    np.testing.assert_allclose(disliked, -liked)


def test_without_neighbors_the_shares_add_up_to_the_score() -> None:
    model = random_model(random_params(SgdParams), 3, 10)
    rules = user_rules(params_as(GradientParams, model))
    z = np.column_stack([model.item_factors[ITEMS], np.ones(4)]).astype(np.float64)
    ridge = np.full(7, rules.factor * 4 + rules.factor_prior)
    ridge[-1] = rules.bias * 4 + rules.bias_prior
    errors = VALUES - model.mean - model.item_bias[ITEMS]
    vector = np.linalg.solve(z.T @ z + np.diag(ridge), z.T @ errors)
    both = [*reasons(model, 9, 9)]
    opposite = model.item_factors[9].copy()
    model.item_factors[9] *= -1
    both += [(item, -share) for item, share in reasons(model, 9, 9)]
    assert sum(share for _, share in both) == pytest.approx(vector[:6] @ opposite, rel=1e-4)
    assert {item for item, _ in both} == set(ITEMS.tolist())


def test_shares_beside_a_dislike_add_up_to_the_score_of_the_refit() -> None:
    model = random_model(random_params(AlsImplicitParams), 3, 10)
    values = np.array([5, 1, 2, 3], dtype=np.float32)
    problem = problem_of(ratings_of(random_matrix(3, 10)), params_as(AlsImplicitParams, model), model.calibration)
    a, b = reference.als_system(ITEMS, signals(values, model.calibration), model.item_factors, problem)
    found = explain.shares(model, ITEMS, values, np.arange(10))
    np.testing.assert_allclose(found.sum(axis=1), model.item_factors @ np.linalg.solve(a, b), rtol=1e-4, atol=1e-6)
    assert not found[:, 1:3].any()


def test_shares_through_item_weights_add_up_to_the_score() -> None:
    model = random_model(random_params(EaseParams), 1, 10, seed=2)
    model.user_factors[:] = 0
    values = np.array([5, 1, 2, 3], dtype=np.float32)
    rows = Rows(np.zeros(1, dtype=np.int64), np.array([len(ITEMS)]), ITEMS.astype(np.int32), values)
    model.user_bias[:], model.item_bias[:], model.mean = 0, 0, 0.0
    found = explain.shares(model, ITEMS, values, np.arange(10))
    exact = evaluate.predict(model, rows, np.zeros(10, dtype=np.int64), np.arange(10))
    np.testing.assert_allclose(found.sum(axis=1), exact, rtol=1e-4, atol=1e-6)
    disliked, slots = ITEMS[1], model.item_slots
    assert not found[slots < 0].any()
    assert slots[disliked] >= 0
    np.testing.assert_allclose(found[slots >= 0, 1], -0.25 * model.item_weights[slots[disliked], slots[slots >= 0]])


@pytest.mark.parametrize("kind", KINDS)
def test_reasons_are_positive_in_order_and_at_most_n(kind: type[Params]) -> None:
    model = random_model(random_params(kind), 3, 10)
    for target in range(10):
        everything = reasons(model, target, 9)
        shares = [share for _, share in everything]
        assert all(share > 0 for share in shares)
        assert shares == sorted(shares, reverse=True)
        assert reasons(model, target, 1) == everything[:1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_user_without_ratings_has_no_reasons(kind: type[Params]) -> None:
    model = random_model(random_params(kind), 3, 10)
    assert explain.reasons(model, ITEMS[:0], VALUES[:0], [3, 4], 5) == [[], []]
