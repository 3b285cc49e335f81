"""ALS ([000]; [001]), explicit and implicit, on one or several ranks, with ratings in memory or in batches."""

from __future__ import annotations

from typing import Any

from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.data.model import Model
from gpu.training.algorithm import Algorithm, register
from gpu.training.loop import Trainer


def make_trainer(*given: Any) -> Trainer[Model]:
    """The trainer of both algorithms."""
    from gpu.als.trainer import AlsTrainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return AlsTrainer(*given)


register(Algorithm(AlsParams, make_trainer))
register(Algorithm(AlsImplicitParams, make_trainer))
