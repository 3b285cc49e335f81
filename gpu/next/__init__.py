"""Next: the item that a user meets next, in closed form, from the order of the last ones."""

from __future__ import annotations

from typing import Any

from gpu.data.model import Model
from gpu.next.params import NextParams
from gpu.training.algorithm import Algorithm, register
from gpu.training.loop import Trainer


def make_trainer(*given: Any) -> Trainer[Model]:
    """The trainer of next."""
    from gpu.next.trainer import NextTrainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return NextTrainer(*given)


register(
    Algorithm(
        NextParams,
        make_trainer,
        learns="What comes next after the last items of a user, among at most 20,000 items. Its ratings need times.",
        score="a weight, about a probability",
        near="by what comes next",
        has_ranks=False,
    )
)
