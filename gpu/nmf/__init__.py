"""Non-negative factorization by FAST-HALS ([002])."""

from __future__ import annotations

from typing import Any

from gpu.data.model import Model
from gpu.nmf.params import NmfParams
from gpu.training.algorithm import Algorithm, register
from gpu.training.loop import Trainer


def make_trainer(*given: Any) -> Trainer[Model]:
    """The trainer of NMF."""
    from gpu.nmf.trainer import NmfTrainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return NmfTrainer(*given)


register(
    Algorithm(
        NmfParams,
        make_trainer,
        learns="Amounts, an unrated pair as 0, by factors that are never negative, so that each is like a topic.",
        score="an amount",
        near="by cosine",
        needs_calibration=False,
    )
)
