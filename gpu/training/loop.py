"""The one loop of all trainings: `train` runs a `Trainer`, times its epochs and reports on them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from gpu.base.errors import TrainingDiverged


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
State = Mapping[str, NDArray[Any]]  # the parameters of a training, on the host


Found = TypeVar("Found")
Found_co = TypeVar("Found_co", covariant=True)  # the result of a training


class Trainer(Protocol[Found_co]):
    """One training, on the host or the device; its result is a model, or the factors of a matrix.

    Trainers inherit the defaults of its methods.

    Attributes:
        seconds: training time so far; at the start, the time for finding neighbors.
        n_parts: parts of an epoch; after each, the training can be interrupted and resumed.
    """

    seconds: float
    n_parts: int = 1

    @property
    def n_epochs(self) -> int:
        """Epochs at most."""

    @property
    def division(self) -> str:
        """How several ranks divide the work, for the log. By default empty: there is only one way."""
        return ""

    def compile(self) -> None:
        """Compile all kernels of an epoch; does not count as training time. By default there are none."""
        return

    def prepare(self) -> None:
        """Do the work before the first epoch that counts as training time. By default there is none."""
        return

    def learn(self, epoch: int) -> None:
        """Run epoch `epoch`, from 0; returns when the epoch is complete."""

    def learn_part(self, epoch: int, part: int) -> None:
        """Run part `part` of epoch `epoch`, both from 0. By default an epoch has one part."""
        del part
        self.learn(epoch)

    def state(self) -> State:
        """All parameters that the next part depends on; on the host, valid until the next part.

        With several ranks all must call it. On rank 0 the arrays have the rows of all ranks; on others they may lack
        rows. By default there is no such state, and the training cannot be resumed.
        """
        name = type(self).__name__
        raise NotImplementedError(f"{name} cannot be resumed")

    def restore(self, state: State) -> None:
        """Continue from the parameters that `state` has returned in a training on the same ratings."""
        name = type(self).__name__
        raise NotImplementedError(f"{name} cannot be resumed")

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
        """The present result, in host memory; with several ranks all must call it, and others than 0 may lack rows."""


class Checkpoints(Protocol):
    """Where the parameters of a training are kept, so that it can be resumed after a failure."""

    def last(self) -> tuple[int, State] | None:
        """(number of completed parts, parameters after them) of the newest checkpoint; None if there is none."""

    def part_done(self, n_parts: int, state: Callable[[], State]) -> None:
        """Called after each part, `n_parts` so far; may call `state` for the parameters, on all ranks, and keep them.

        It copies the arrays before it returns.
        """


def train(trainer: Trainer[Found], on_epoch: OnEpoch | None = None, checkpoints: Checkpoints | None = None) -> Found:
    """Run all epochs of `trainer` and return its result.

    Args:
        on_epoch: called after each epoch; without it no metrics are computed. A training that fails between the report
            of an epoch and the next checkpoint reports the epoch again when it is resumed.
        checkpoints: where to resume from, and what to tell after each part of an epoch. A resumed training ends with
            the parameters of an undisturbed one, bit for bit, if the algorithm is deterministic.

    Raises:
        TrainingDiverged: a parameter, or a metric of the training ratings, is not finite. A metric of the test set may
            be NaN: without a liked pair there is no rank.
    """
    begin(trainer)
    for epoch, part in _parts(trainer, checkpoints):
        advance(trainer, epoch, part)
        is_last = part == trainer.n_parts - 1
        if is_last and on_epoch is not None:
            metrics = trainer.metrics()
            if not all(math.isfinite(value) for name, value in metrics.items() if not name.startswith("test_")):
                raise trainer.diverged(epoch)
            on_epoch(EpochReport(epoch + 1, trainer.n_epochs, trainer.seconds, metrics))
        if checkpoints is not None:  # after the report, so that a resumed training reports every epoch
            checkpoints.part_done(epoch * trainer.n_parts + part + 1, trainer.state)
        if is_last and trainer.has_converged():
            break
    return trainer.model()


def _parts(trainer: Trainer[Found], checkpoints: Checkpoints | None) -> Iterator[tuple[int, int]]:
    """(epoch, part) of all parts that are still to be run; restores the newest checkpoint."""
    n_done = 0
    if checkpoints is not None and (checkpoint := checkpoints.last()) is not None:
        n_done, state = checkpoint
        trainer.restore(state)
        if n_done % trainer.n_parts == 0 and trainer.has_converged():
            return
    for n in range(n_done, trainer.n_epochs * trainer.n_parts):
        yield divmod(n, trainer.n_parts)


def begin(trainer: Trainer[object]) -> None:
    """Compile and prepare: all work before the first epoch."""
    trainer.compile()
    began = time.perf_counter()
    trainer.prepare()
    trainer.seconds += time.perf_counter() - began


def advance(trainer: Trainer[object], epoch: int, part: int = 0) -> None:
    """Run part `part` of epoch `epoch`, both from 0.

    Raises:
        TrainingDiverged: a parameter is not finite.
    """
    began = time.perf_counter()
    trainer.learn_part(epoch, part)
    trainer.seconds += time.perf_counter() - began
    if not trainer.is_finite():
        raise trainer.diverged(epoch)
