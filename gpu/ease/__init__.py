"""EASE (Steck 2019): item weights in closed form."""

from __future__ import annotations

from typing import Any

from gpu.data.model import Model
from gpu.ease.params import EaseParams
from gpu.training.algorithm import Algorithm, register
from gpu.training.loop import Trainer


def make_trainer(*given: Any) -> Trainer[Model]:
    """The trainer of EASE."""
    from gpu.ease.trainer import EaseTrainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return EaseTrainer(*given)


register(
    Algorithm(
        EaseParams,
        make_trainer,
        learns="Which items are liked together with others, among at most 20,000, or 100,000 if a GPU trains.",
        score="a preference of about 0 to 1",
        near="by partial correlation",
        has_ranks=False,
    )
)
