"""Neighbors: items that are liked together, counted exactly."""

from __future__ import annotations

from typing import Any

from gpu.data.model import Model
from gpu.neighbors.params import NeighborsParams
from gpu.training.algorithm import Algorithm, register
from gpu.training.loop import Trainer


def make_trainer(*given: Any) -> Trainer[Model]:
    """The trainer of neighbors."""
    from gpu.neighbors.trainer import NeighborsTrainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return NeighborsTrainer(*given)


register(
    Algorithm(
        NeighborsParams,
        make_trainer,
        learns="Which items are liked together: each lists up to 500 others.",
        score="a sum of weights, which compares items for one user",
        near="by weight, at most 500",
        has_ranks=False,
    )
)
