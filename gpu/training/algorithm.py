"""`Algorithm`: what the engine must know of an algorithm, beside the facts of its hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu.base.backend import Backend
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.training.loop import Trainer

MakeTrainer = Callable[..., Trainer[Model]]


@dataclass(frozen=True)
class Algorithm:
    """One algorithm.

    Attributes:
        params: class of its hyperparameters; its class variables say what it learns from, and how it lists and refits.
        trainer: makes a trainer of (ratings, params, backend, test), a calibration if it needs one, and an exchange if
            it has ranks. It imports the trainer's module when it is called, because that loads kernels.
        learns, score, near: for people who choose one: what it learns, what scores of its lists mean, and by what items
            are neighbors.
        needs_calibration: whether it trains by values that are derived from the data (`gpu.data.calibration`).
        has_ranks: whether several ranks can train one model together (`gpu.ranks.exchange`).
        compile_once: compiles the kernels of (params, backend) that take seconds, while ranks read ratings and connect;
            of processes that call it together one compiles. Default: the trainer compiles all.
    """

    params: type[Params]
    trainer: MakeTrainer
    learns: str
    score: str
    near: str
    needs_calibration: bool = True
    has_ranks: bool = True
    compile_once: Callable[[Any, Backend], None] = lambda _params, _backend: None


REGISTERED: dict[str, Algorithm] = {}


def register(record: Algorithm) -> None:
    """Make an algorithm known; its folder calls this when it is imported."""
    REGISTERED[record.params.algorithm] = record
