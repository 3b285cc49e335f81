"""The loop that all trainings share."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

import gpu
from gpu.errors import TrainingDiverged
from gpu.training.loop import EpochReport, Trainer, train
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


def test_epochs_follow_what_comes_once() -> None:
    trainer, reports = Counting({"train_rmse": 1.0}), list[EpochReport]()
    assert train(trainer, reports.append) == 4
    assert trainer.calls == ["compile", "prepare", "learn 0", "learn 1", "learn 2", "learn 3"]
    assert [(report.epoch, report.n_epochs, report.metrics) for report in reports] == [
        (n, 4, {"train_rmse": 1.0}) for n in range(1, 5)
    ]
    assert train(Counting(converged_at=2)) == 2


def test_what_is_not_finite_ends_it() -> None:
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
