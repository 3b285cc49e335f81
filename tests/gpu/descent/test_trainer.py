"""CUSGD++: the schedule, the loop, and that it learns."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

import gpu
from gpu.base.backend import Backend
from gpu.base.errors import InvalidRatings, TrainingDiverged
from gpu.data.baselines import shrunk_biases
from gpu.data.param_kinds import Params
from gpu.descent import trainer as sgd
from gpu.descent.params import CulshParams, EsgdParams, SgdParams
from gpu.descent.trainer import rates_at
from gpu.training.loop import EpochReport, train
from tests.data import ML_100K, needs_ml_100k, planted, split
from tests.gpu.fitted import assert_equal_models, last_metrics, one_thread

SMALL = SgdParams(n_factors=6, n_epochs=12, learning_rate=0.03, deterministic=True)
LEARNERS = pytest.mark.parametrize("params", [SMALL, EsgdParams(n_factors=6, n_epochs=12, learning_rate=0.03)])


def test_learning_beats_the_baselines_on_planted_data(backend: Backend) -> None:
    train, test = split(planted())
    start = sgd.start_model(train, SMALL, shrunk_biases(train), shrunk_biases(train))
    by_baselines = gpu.evaluate.rmse(start, train.by_user, *test.coo())
    learned = last_metrics(train, test, SgdParams(n_factors=6, n_epochs=60, learning_rate=0.03), backend)
    assert learned["test_rmse"] < 0.6 * by_baselines
    assert learned["train_rmse"] < learned["test_rmse"]


def test_equal_seeds_give_equal_models_and_other_seeds_other_ones(backend: Backend) -> None:
    ratings = planted()
    model = gpu.fit(ratings, SMALL, backend=backend)
    assert_equal_models(model, gpu.fit(ratings, SMALL, backend=backend))
    other = gpu.fit(ratings, dataclasses.replace(SMALL, seed=1), backend=backend)
    assert not np.allclose(model.item_factors, other.item_factors)


def test_the_number_of_threads_changes_nothing() -> None:
    ratings = planted()
    with one_thread():
        alone = gpu.fit(ratings, SMALL)
    assert_equal_models(alone, gpu.fit(ratings, SMALL))


@LEARNERS
def test_rows_without_ratings_stay_zero_and_untrained(params: Params, backend: Backend) -> None:
    users, items, values = planted().coo()
    ratings = gpu.Ratings.from_coo(users + 1, items + 2, values, (310, 130))
    model = gpu.fit(ratings, params, backend=backend)
    assert not model.user_trained[0]
    assert model.user_trained[1:301].all()
    for name, empty in (("user_factors", [0, 305]), ("user_bias", [0, 305]), ("item_factors", [0, 1, 125])):
        assert not getattr(model, name)[empty].any()


@LEARNERS
def test_one_rating_is_enough(params: Params, backend: Backend) -> None:
    one = gpu.Ratings.from_coo(np.array([0]), np.array([0]), np.array([4.0]))
    model = gpu.fit(one, params, backend=backend)
    assert gpu.evaluate.predict(model, one.by_user, np.array([0]), np.array([0]))[0] == pytest.approx(4.0)


@LEARNERS
def test_no_rating_is_refused(params: Params, backend: Backend) -> None:
    with pytest.raises(InvalidRatings, match="got none"):
        gpu.fit(gpu.Ratings.from_coo(np.array([], int), np.array([], int), np.array([])), params, backend=backend)


@LEARNERS
def test_steps_that_are_too_long_are_said_to_diverge(params: SgdParams | EsgdParams, backend: Backend) -> None:
    with pytest.raises(TrainingDiverged, match=f"{params.algorithm} diverged.*learning_rate"):
        gpu.fit(planted(), type(params)(n_factors=6, learning_rate=9.0), backend=backend)


def test_parameters_so_large_that_the_error_overflows_are_said_to_diverge() -> None:
    ratings = gpu.Ratings.from_coo(np.array([0, 1, 0, 1]), np.array([0, 1, 1, 2]), np.array([1e6, -1e6, 0.0, 5.0]))
    errors: list[float] = []
    with pytest.raises(TrainingDiverged, match="sgd diverged in epoch"):
        train(sgd.trainer(ratings, SgdParams()), lambda report: errors.append(report.metrics["train_rmse"]))
    assert np.isfinite(errors).all()


@LEARNERS
def test_reports_count_epochs_and_training_time(params: Params, backend: Backend) -> None:
    reports: list[EpochReport] = []
    gpu.fit(planted(), params, backend=backend, on_epoch=reports.append)
    assert [(r.epoch, r.n_epochs) for r in reports] == [(n, 12) for n in range(1, 13)]
    assert all(a.seconds < b.seconds for a, b in pairwise(reports))
    assert list(reports[0].metrics) == ["train_rmse"]


def test_steps_follow_eq_7() -> None:
    params = CulshParams(learning_rate=0.1, learning_rate_decay=0.3, weight_learning_rate=0.01)
    for epoch in (0, 1, 4):
        rates = rates_at(params, epoch)
        assert rates.step == pytest.approx(0.1 / (1 + 0.3 * epoch**1.5))
        assert rates.weight_step == pytest.approx(0.01 / (1 + 0.3 * epoch**1.5))
    assert rates_at(SgdParams(), 0).weight_step == 0


@needs_ml_100k
@pytest.mark.data
def test_real_ratings_are_learned(backend: Backend) -> None:
    users, items, values, _ = np.loadtxt(ML_100K, dtype=np.int64).T
    train, test = split(gpu.Ratings.from_coo(users, items, values), 0.2)
    assert last_metrics(train, test, SgdParams(n_factors=32), backend)["test_rmse"] < 0.93
