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


register(Algorithm(EaseParams, make_trainer, has_ranks=False))
