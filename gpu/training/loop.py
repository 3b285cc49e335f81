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
    """What one epoch did.

    Attributes:
        epoch: from 1.
        n_epochs: how many there will be.
        seconds: training so far; without compiling, and without measuring `metrics`.
        metrics: `train_rmse` and, with a test set, `test_rmse`; for implicit models, with a test set, `test_ndcg@10`
            and `test_recall@20`. `train_loss`: of `culsh-implicit` the mean cross-entropy of the epoch's samples, of
            ALS the objective over the number of ratings. Of NMF `relative_error`.
    """

    epoch: int
    n_epochs: int
    seconds: float
    metrics: Mapping[str, float] = field(default_factory=dict)


OnEpoch = Callable[[EpochReport], None]


Found = TypeVar("Found")
Found_co = TypeVar("Found_co", covariant=True)  # what a training finds


class Trainer(Protocol[Found_co]):
    """One training, on the host or the device; it finds a model, or factors of any matrix.

    Trainers inherit from it what they need not say.

    Attributes:
        seconds: training time; spent on neighbors before `train`, then what `train` adds.
    """

    seconds: float

    @property
    def n_epochs(self) -> int:
        """Epochs at most."""

    def compile(self) -> None:
        """Compile all kernels of an epoch; does not count as training time. By default there are none."""
        return

    def prepare(self) -> None:
        """What comes once before the first epoch and counts as training time. By default nothing."""
        return

    def learn(self, epoch: int) -> None:
        """Run epoch `epoch`, from 0; all of it is done on return."""

    def is_finite(self) -> bool:
        """Whether every parameter is finite. By default left to the metrics, and to `gpu.training.check` at the end."""
        return True

    def diverged(self, epoch: int) -> TrainingDiverged:
        """The error for a parameter that is not finite after epoch `epoch`; says which parameter to change."""

    def metrics(self) -> Mapping[str, float]:
        """See `EpochReport`."""

    def has_converged(self) -> bool:
        """Whether later epochs would change too little. By default all epochs are run."""
        return False

    def model(self) -> Found_co:
        """What is found so far, in host memory."""


def train(trainer: Trainer[Found], on_epoch: OnEpoch | None = None) -> Found:
    """Run all epochs of `trainer` and return what it finds.

    Args:
        on_epoch: called after each epoch; metrics are computed only if it is given.

    Raises:
        TrainingDiverged: a parameter is not finite, or a metric of the training ratings. A metric of the test set may
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
    """Everything before the first epoch."""
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
