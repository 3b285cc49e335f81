"""`sgd`, `culsh` and `culsh-implicit` on several ranks: the models and errors of one rank, bit for bit; and resumed."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from gpu.base.backend import HOST
from gpu.base.errors import TrainingDiverged
from gpu.data.calibration import calibrate
from gpu.data.model import Model
from gpu.data.views import balanced_bounds
from gpu.descent import culsh
from gpu.descent import trainer as sgd
from gpu.descent.host import N_GROUPS, Descent
from gpu.descent.host_rotation import first_groups
from gpu.descent.params import CulshImplicitParams, CulshParams, SgdParams
from gpu.descent.trainer import DescentTrainer
from gpu.ranks.exchange import ALONE, Exchange
from gpu.ranks.threads import run_threads
from gpu.training.loop import train
from tests.gpu.als.test_ranks import Kept, ratings_of

KINDS: dict[str, SgdParams] = {
    "sgd": SgdParams(n_factors=6, n_epochs=3, learning_rate=0.03, seed=7),
    "culsh": CulshParams(n_factors=5, n_neighbors=6, n_bits=128, n_epochs=3),
    "culsh-implicit": CulshImplicitParams(n_factors=4, n_neighbors=5, n_bits=128, n_epochs=3, seed=2),
    "culsh by age": CulshParams(n_factors=4, n_neighbors=5, n_bits=128, n_epochs=3, half_life_days=1),
    "culsh-implicit by age": CulshImplicitParams(n_neighbors=5, n_bits=128, n_epochs=3, half_life_days=1),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def trainer_of(params: SgdParams, exchange: Exchange) -> DescentTrainer:
    ratings, test = ratings_of(), ratings_of(n=100, seed=1)
    if params.half_life_days is not None:
        ratings = ratings.weighted(np.linspace(0.1, 3, len(ratings), dtype=np.float32))
    if isinstance(params, CulshParams):
        return culsh.trainer(ratings, params, HOST, test, calibrate(ratings, params), exchange)
    return sgd.trainer(ratings, params, HOST, test, exchange)


def run(params: SgdParams, exchange: Exchange) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    reports: list[dict[str, Any]] = []
    model = train(trainer_of(params, exchange), lambda report: reports.append(dict(report.metrics)))
    return model.arrays, reports


def assert_equal_arrays(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@EVERY_KIND
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 9])
def test_any_number_of_ranks_gives_the_bits_of_one(kind: str, size: int) -> None:
    expected, reports = run(KINDS[kind], ALONE)
    assert np.isfinite(expected["item_factors"]).all()
    for rank, (arrays, found) in enumerate(run_threads(size, lambda ring: run(KINDS[kind], ring))):
        assert_equal_arrays(arrays, expected)
        for metrics, wanted in zip(found, reports, strict=True):
            shown = {name: value for name, value in wanted.items() if rank == 0 or "@" not in name}
            assert metrics == pytest.approx(shown, rel=1e-9)


@EVERY_KIND
def test_metrics_between_epochs_change_nothing(kind: str) -> None:
    expected, _ = run(KINDS[kind], ALONE)
    for model in run_threads(3, lambda ring: train(trainer_of(KINDS[kind], ring))):
        assert_equal_arrays(model.arrays, expected)


@EVERY_KIND
@pytest.mark.parametrize("size", [1, 3])
def test_a_training_is_resumed_on_another_number_of_ranks(kind: str, size: int) -> None:
    params = KINDS[kind]

    def interrupted(ring: Exchange) -> Kept:
        checkpoints = Kept()
        train(trainer_of(params, ring), None, checkpoints)
        return checkpoints

    expected, reports = run(params, ALONE)
    kept = run_threads(2, interrupted)[0]
    for n_done in (1, 2, 3):

        def resume(ring: Exchange, n_done: int = n_done) -> Any:
            since, found = Kept(), []
            since.all[n_done] = kept.all[n_done]
            model = train(trainer_of(params, ring), lambda report: found.append(dict(report.metrics)), since)
            return model.arrays, found

        arrays, found = run_threads(size, resume)[0]
        assert_equal_arrays(arrays, expected)
        for metrics, wanted in zip(found, reports[n_done:], strict=True):
            assert metrics == pytest.approx(wanted, rel=1e-9)


def test_all_ranks_go_back_to_an_earlier_state() -> None:
    def work(ring: Exchange) -> bool:
        trainer = trainer_of(KINDS["culsh"], ring)
        trainer.learn(0)
        state = {name: array.copy() for name, array in trainer.state().items()}
        trainer.learn(1)
        first = trainer.model().item_factors.copy()
        trainer.learn(2)
        trainer.restore(state)
        trainer.learn(1)
        return np.array_equal(trainer.model().item_factors, first)

    assert run_threads(3, work) == [True] * 3


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_all_ranks_notice_a_parameter_of_one_that_is_not_finite(value: float) -> None:
    ratings, params = ratings_of(), KINDS["sgd"]
    bounds = balanced_bounds(ratings.by_user.lengths, N_GROUPS)[first_groups(N_GROUPS, 3)]

    def work(ring: Exchange) -> tuple[bool, bool]:
        model = Model.zeros(params, 3.0, ratings.scale, ratings.n_users, ratings.n_items)
        descent = Descent(model, params, ratings, None, ring)
        model.user_bias[bounds[(ring.rank + 1) % 3]] = value  # a copy of what another rank learns
        before = descent.is_finite()
        if ring.rank == 1:
            model.user_factors[bounds[1]] = value
        return before, descent.is_finite()

    assert run_threads(3, work) == [(True, False)] * 3


def test_steps_that_are_too_long_diverge_on_all_ranks() -> None:
    def work(ring: Exchange) -> str:
        with pytest.raises(TrainingDiverged) as error:
            train(trainer_of(dataclasses.replace(KINDS["sgd"], learning_rate=9.0), ring))
        return str(error.value)

    assert len(set(run_threads(3, work))) == 1
