"""The loop that all trainings share."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import gpu
from gpu.algorithms import run_here, trainer_of
from gpu.base.errors import InvalidParams, TrainingDiverged
from gpu.data.signals import NEUTRAL
from gpu.ranks.exchange import Alone
from gpu.training.loop import EpochReport, State, Trainer, train
from tests.data import planted


class Counting(Trainer[int]):
    """Finds how many epochs it has run."""

    n_epochs = 4

    def __init__(self, metrics: Mapping[str, float] = {}, *, finite_until: int = 9, converged_at: int = 9) -> None:
        self.seconds, self.calls = 0.0, list[str]()
        self._metrics, self._finite_until, self._converged_at = metrics, finite_until, converged_at

    def compile(self) -> None:
        self.calls.append("compile")

    def prepare(self) -> None:
        self.calls.append("prepare")

    def learn(self, epoch: int) -> None:
        self.calls.append(f"learn {epoch}")

    def is_finite(self) -> bool:
        return self.model() <= self._finite_until

    def diverged(self, epoch: int) -> TrainingDiverged:
        return TrainingDiverged(f"after epoch {epoch}")

    def metrics(self) -> Mapping[str, float]:
        return self._metrics

    def has_converged(self) -> bool:
        return self.model() == self._converged_at

    def model(self) -> int:
        return sum(call.startswith("learn") for call in self.calls)


def test_epochs_follow_the_preparation() -> None:
    trainer, reports = Counting({"train_rmse": 1.0}), list[EpochReport]()
    assert train(trainer, reports.append) == 4
    assert trainer.calls == ["compile", "prepare", "learn 0", "learn 1", "learn 2", "learn 3"]
    assert [(report.epoch, report.n_epochs, report.metrics) for report in reports] == [
        (n, 4, {"train_rmse": 1.0}) for n in range(1, 5)
    ]
    assert train(Counting(converged_at=2)) == 2


def test_a_model_that_is_not_finite_ends_the_training() -> None:
    with pytest.raises(TrainingDiverged, match="epoch 2"):
        train(Counting(finite_until=2))
    with pytest.raises(TrainingDiverged, match="epoch 0"):
        train(Counting({"train_rmse": math.inf}), lambda _: None)


@pytest.mark.parametrize("algorithm", ["als-implicit", "culsh-implicit", "ease"])
def test_a_test_set_without_likes_has_no_rank_and_ends_nothing(algorithm: str) -> None:
    train_on = planted()
    users, items, _ = train_on.coo()
    test = train_on.where((users == users[0]) & (items == items[0]))  # rated already, so that no rank is left
    given = {"n_factors": 4, "n_epochs": 2} if algorithm != "ease" else {}
    reports: list[EpochReport] = []
    gpu.fit(train_on, gpu.params_for(algorithm, given), test=test, on_epoch=reports.append)
    assert math.isnan(reports[-1].metrics["test_ndcg@10"])


class Failing:
    """Checkpoints in memory; saving one of them fails once."""

    def __init__(self, fails_at: int) -> None:
        self.n_parts, self._fails_at = 0, fails_at

    def last(self) -> tuple[int, State] | None:
        return (self.n_parts, {"calls": np.arange(self.n_parts)}) if self.n_parts else None

    def part_done(self, n_parts: int, state: Callable[[], State]) -> None:
        if n_parts == self._fails_at:
            self._fails_at = 0
            raise OSError("no space")
        self.n_parts = n_parts


class Resumable(Counting):
    def state(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        self.calls += [f"learn {n}" for n in state["calls"]]


def test_a_resumed_training_reports_every_epoch() -> None:
    """An epoch is reported before its checkpoint, so at worst twice."""
    reports, checkpoints = list[EpochReport](), Failing(2)
    with pytest.raises(OSError, match="no space"):
        train(Resumable(), reports.append, checkpoints)
    assert train(Resumable(), reports.append, checkpoints) == 4
    assert [report.epoch for report in reports] == [1, 2, 2, 3, 4]


def test_a_training_that_had_converged_runs_no_epoch_when_it_is_resumed() -> None:
    checkpoints = Failing(0)
    assert train(Resumable(converged_at=2), None, checkpoints) == 2
    assert train(Resumable(converged_at=2), None, checkpoints) == 2


@pytest.mark.parametrize("algorithm", ["als", "als-implicit"])
def test_all_epochs_may_run_elsewhere(algorithm: str) -> None:
    """`run` gets explicit ratings in multiples of their unit, and its model is scaled back."""
    ratings, params, runs = planted(), gpu.params_for(algorithm, {"n_factors": 4, "n_epochs": 2}), []

    def run(*arguments: Any) -> gpu.Model:
        runs.append(arguments)
        return run_here(*arguments)

    model, expected = gpu.fit(ratings, params, run=run), gpu.fit(ratings, params)
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(model.arrays[name], array, err_msg=name)
    ((run_on, _, backend, test, on_epoch, calibration),) = runs
    unit = 1.0 if params.is_implicit else np.float32(calibration.unit)
    np.testing.assert_array_equal(run_on.by_user.values, ratings.by_user.values / unit)
    assert (backend, test, on_epoch) == (gpu.HOST, None, None)


def test_several_ranks_are_refused_for_algorithms_that_cannot_use_them() -> None:
    exchange = Alone()
    exchange.size = 2
    with pytest.raises(InvalidParams, match="expected 1 for ease, got 2; only als, als-implicit, culsh"):
        trainer_of(planted(), gpu.params_for("ease", {}), gpu.HOST, None, NEUTRAL, exchange)
