"""What a training tells after each epoch, and how it is stopped: the same for every algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from gpu.errors import TrainingCancelled


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
ShouldStop = Callable[[], bool]


def epochs(n_epochs: int, should_stop: ShouldStop | None) -> Iterator[int]:
    """Epochs from 0.

    Raises:
        TrainingCancelled: `should_stop` returned true before one.
    """
    for epoch in range(n_epochs):
        if should_stop is not None and should_stop():
            raise TrainingCancelled(f"Training stopped after {epoch} of {n_epochs} epochs, as asked")
        yield epoch
