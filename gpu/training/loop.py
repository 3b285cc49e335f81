"""The one loop of all trainings: `train` runs a `Trainer`, times its epochs and reports on them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from gpu.errors import TrainingDiverged


@dataclass(frozen=True)
class EpochReport:
    """Result of one epoch.

    Attributes:
        epoch: from 1.
        n_epochs: number of epochs, at most.
        seconds: training time so far, without compiling and without computing `metrics`.
        metrics: `train_rmse` and, with a test set, `test_rmse`. Implicit models have `test_ndcg@10` and
            `test_recall@20` instead, with a test set. `train_loss` is the mean cross-entropy of the epoch's samples for
            `culsh-implicit`, and the objective over the number of ratings for ALS. NMF has `relative_error`.
    """

    epoch: int
    n_epochs: int
    seconds: float
    metrics: Mapping[str, float] = field(default_factory=dict)


OnEpoch = Callable[[EpochReport], None]


Found = TypeVar("Found")
Found_co = TypeVar("Found_co", covariant=True)  # the result of a training


class Trainer(Protocol[Found_co]):
    """One training, on the host or the device; its result is a model, or the factors of a matrix.

    Trainers inherit the defaults of its methods.

    Attributes:
        seconds: training time so far; at the start, the time for finding neighbors.
    """

    seconds: float

    @property
    def n_epochs(self) -> int:
        """Epochs at most."""

    def compile(self) -> None:
        """Compile all kernels of an epoch; does not count as training time. By default there are none."""
        return

    def prepare(self) -> None:
        """Do the work before the first epoch that counts as training time. By default there is none."""
        return

    def learn(self, epoch: int) -> None:
        """Run epoch `epoch`, from 0; returns when the epoch is complete."""

    def is_finite(self) -> bool:
        """Whether every parameter is finite. By default true: metrics and `gpu.training.check` find other cases."""
        return True

    def diverged(self, epoch: int) -> TrainingDiverged:
        """The error for a parameter that is not finite after epoch `epoch`; its message names a remedy."""

    def metrics(self) -> Mapping[str, float]:
        """See `EpochReport`."""

    def has_converged(self) -> bool:
        """Whether later epochs would gain too little. By default false: all epochs are run."""
        return False

    def model(self) -> Found_co:
        """The present result, in host memory."""


def train(trainer: Trainer[Found], on_epoch: OnEpoch | None = None) -> Found:
    """Run all epochs of `trainer` and return its result.

    Args:
        on_epoch: called after each epoch; without it no metrics are computed.

    Raises:
        TrainingDiverged: a parameter, or a metric of the training ratings, is not finite. A metric of the test set may
            be NaN: without a liked pair there is no rank.
    """
    begin(trainer)
    for epoch in range(trainer.n_epochs):
        advance(trainer, epoch)
        if on_epoch is not None:
            metrics = trainer.metrics()
            if not all(math.isfinite(value) for name, value in metrics.items() if not name.startswith("test_")):
                raise trainer.diverged(epoch)
            on_epoch(EpochReport(epoch + 1, trainer.n_epochs, trainer.seconds, metrics))
        if trainer.has_converged():
            break
    return trainer.model()


def begin(trainer: Trainer[object]) -> None:
    """Compile and prepare: all work before the first epoch."""
    trainer.compile()
    began = time.perf_counter()
    trainer.prepare()
    trainer.seconds += time.perf_counter() - began


def advance(trainer: Trainer[object], epoch: int) -> None:
    """Run epoch `epoch`, from 0.

    Raises:
        TrainingDiverged: a parameter is not finite.
    """
    began = time.perf_counter()
    trainer.learn(epoch)
    trainer.seconds += time.perf_counter() - began
    if not trainer.is_finite():
        raise trainer.diverged(epoch)
