"""ALS in blocks of factors: half-iterations against the oracle, and where many of them lead."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpu
from gpu.als import host, objective
from gpu.als.objective import BLOCK, WHOLE, AlsObjective, is_blocked, n_blocks, width
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.als.trainer import AlsTrainer
from gpu.base.backend import Backend
from gpu.base.errors import TrainingDiverged
from gpu.training.check import check_trained
from gpu.training.loop import EpochReport, train
from tests import reference
from tests.data import planted, split
from tests.gpu.als.test_trainer import (
    KINDS,
    PRECISIONS,
    assert_rows_agree,
    half,
    near,
    pairs,
    replaced,
    rows_of,
    signed,
    skip_unless_used,
    table_of,
    tolerance,
)
from tests.gpu.fitted import assert_equal_models, last_metrics, one_thread
from tests.gpu.twins import twin_of

SMALL = AlsParams(n_factors=WHOLE + 5, n_epochs=3, precision="float32")
SMALL_IMPLICIT = AlsImplicitParams(n_factors=WHOLE + 5, n_epochs=3, alpha=2.0, precision="float32")
BOTH = pytest.mark.parametrize("params", [SMALL, SMALL_IMPLICIT], ids=["als", "als-implicit"])


def blocked(kind: AlsObjective, n_factors: int, **changes: Any) -> AlsObjective:
    problem = kind._replace(n_factors=n_factors, cg_tolerance=0.0, **changes)
    assert is_blocked(problem)
    return problem


def assert_as_the_oracle(
    backend: Backend, problem: AlsObjective, lengths: list[int], n_columns: int, seed: int = 0
) -> None:
    rows, fixed = rows_of(lengths, n_columns, seed), table_of(n_columns, problem, seed + 1)
    rows = signed(rows) if problem.is_implicit else rows
    start = near(rows, fixed, problem)
    expected = reference.als_half_in_blocks(pairs(rows), start, fixed, problem, BLOCK)
    assert_rows_agree(half(backend, rows, start, fixed, problem), expected, tolerance(backend, problem))


@KINDS
@PRECISIONS
@pytest.mark.parametrize("n_factors", [257, 300, 512])
def test_rows_of_every_length_agree_with_the_oracle(
    kind: AlsObjective, precision: str, n_factors: int, backend: Backend
) -> None:
    skip_unless_used(backend, precision)
    problem = blocked(kind, n_factors, precision=precision)
    assert_as_the_oracle(backend, problem, [0, 1, 3, 16, 33, 700, 9000], 9000)


@KINDS
@given(lengths=st.lists(st.integers(0, 70), min_size=1, max_size=40), seed=st.integers(0, 99))
@settings(max_examples=10)
def test_random_shapes_agree_with_the_oracle(
    kind: AlsObjective, backend: Backend, lengths: list[int], seed: int
) -> None:
    assert_as_the_oracle(backend, blocked(kind, 260), lengths, 70, seed)


@KINDS
def test_many_factors_agree_with_the_oracle(kind: AlsObjective, backend: Backend) -> None:
    assert n_blocks(blocked(kind, 1024)) == 16
    assert_as_the_oracle(backend, blocked(kind, 1024), [0, 5, 40, 300], 400)


@KINDS
def test_half_iterations_lead_to_the_exact_solution(kind: AlsObjective, backend: Backend) -> None:
    problem = blocked(kind, 260, prior=2.0)
    rows, fixed = rows_of([0, 1, 40, 300], 400), table_of(400, problem)
    found = np.zeros((4, width(problem)), np.float32)
    for _ in range(60):
        found = half(backend, rows, found, fixed, problem)
    exact = reference.als_half(pairs(rows), found, fixed, problem._replace(solver="cholesky"))
    assert_rows_agree(found, exact, (1e-3, 5e-3))


def test_rows_that_are_good_enough_are_left_alone(backend: Backend) -> None:
    problem = blocked(KINDS.args[1][2], 260)._replace(cg_tolerance=1e6)
    rows, fixed, start = rows_of([5, 30], 50), table_of(50, problem), table_of(2, problem, 2)
    np.testing.assert_array_equal(half(backend, rows, start, fixed, problem), start)


@BOTH
def test_the_objective_never_rises(
    params: AlsParams | AlsImplicitParams, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "STRONG", 1.0)
    reports: list[EpochReport] = []
    gpu.fit(planted(), replaced(params, n_epochs=6), backend=backend, on_epoch=reports.append)
    losses = [report.metrics["train_loss"] for report in reports]
    assert all(later <= before * (1 + 1e-6) for before, later in pairwise(losses))
    assert losses[-1] < losses[0]


@BOTH
def test_the_objective_gets_as_low_as_that_of_exact_solutions(params: AlsParams | AlsImplicitParams) -> None:
    """As low as Cholesky brings it in as many epochs, to one in a hundred."""
    found = []
    for solver in ("cg", "cholesky"):
        reports: list[EpochReport] = []
        gpu.fit(planted(), replaced(params, solver=solver, n_epochs=8), on_epoch=reports.append)
        found.append(reports[-1].metrics["train_loss"])
    assert found[0] < 1.01 * found[1]


@BOTH
def test_many_factors_are_learned(params: AlsParams | AlsImplicitParams, backend: Backend) -> None:
    users, items, values = planted(300, 120, 60).coo()
    is_told = (values >= 3.5) | (params.algorithm == "als")
    train, test = split(gpu.Ratings.from_coo(users[is_told], items[is_told], values[is_told], (300, 120)))
    few, many = (last_metrics(train, test, replaced(params, n_factors=n, n_epochs=6), backend) for n in (6, 300))
    if params.algorithm == "als":
        assert many["test_rmse"] < 1.2 * few["test_rmse"]
    else:
        assert many["test_recall@20"] > 0.8 * few["test_recall@20"]


@BOTH
def test_the_number_of_threads_changes_nothing(params: AlsParams | AlsImplicitParams) -> None:
    ratings = planted()
    with one_thread():
        alone = gpu.fit(ratings, params)
    assert_equal_models(alone, gpu.fit(ratings, params))


@BOTH
def test_equal_seeds_give_equal_models(params: AlsParams | AlsImplicitParams, backend: Backend) -> None:
    assert_equal_models(*(gpu.fit(planted(), params, backend=backend) for _ in range(2)))


@BOTH
def test_rows_without_ratings_stay_zero(params: AlsParams | AlsImplicitParams, backend: Backend) -> None:
    users, items, values = planted().coo()
    model = gpu.fit(gpu.Ratings.from_coo(users + 1, items + 2, values, (310, 130)), params, backend=backend)
    for name, empty in (("user_factors", [0, 305]), ("user_bias", [0, 305]), ("item_factors", [0, 1, 125])):
        assert not getattr(model, name)[empty].any()
    assert model.user_factors[1:301].any(axis=1).all()


def test_reported_errors_are_those_of_the_model(backend: Backend) -> None:
    train, test = split(planted())
    reports: list[EpochReport] = []
    model = gpu.fit(train, SMALL, backend=backend, test=test, on_epoch=reports.append)
    for name, ratings in (("train_rmse", train), ("test_rmse", test)):
        expected = gpu.evaluate.rmse(model, train.by_user, *ratings.coo())
        assert reports[-1].metrics[name] == pytest.approx(expected, rel=1e-5)


def test_the_reported_loss_is_the_objective(backend: Backend) -> None:
    ratings, problem = planted(60, 50, 20), blocked(KINDS.args[1][2], 300)
    users, items = table_of(60, problem), table_of(50, problem, 2)
    matrix = np.full((60, 50), np.nan)
    matrix[ratings.coo()[:2]] = ratings.coo()[2]
    als = twin_of(host, backend)
    side, placed = als.prepare(ratings.by_user, 50, problem), als.load(users, problem)
    _, loss = als.errors(side, placed, als.load(items, problem), problem, (1.0, 5.0))
    assert loss == pytest.approx(reference.als_data_loss(matrix, users, items, problem), rel=1e-5)
    penalty = reference.als_penalty(ratings.by_user.lengths, 50, users, problem)
    assert als.penalty(side, placed, problem) == pytest.approx(penalty, rel=1e-5)


def test_an_overflow_is_a_divergence(backend: Backend) -> None:
    huge = gpu.Ratings.from_coo(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([3e38, -3e38, 1.0]))
    with pytest.raises(TrainingDiverged, match="regularization"):
        check_trained(train(AlsTrainer(huge, replaced(SMALL, regularization=0.0), backend)), huge)
