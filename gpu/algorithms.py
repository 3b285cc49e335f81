"""`ALGORITHMS`: one record for each algorithm; a new one is added here, with parameters in `gpu.params`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu.backend import Backend
from gpu.calibration import Calibration
from gpu.model import Model
from gpu.param_kinds import Params
from gpu.params import PARAMETERS
from gpu.ratings import Ratings
from gpu.training import culsh, sgd
from gpu.training.als import AlsTrainer
from gpu.training.ease import EaseTrainer
from gpu.training.esgd import EsgdTrainer
from gpu.training.loop import Trainer
from gpu.training.nmf import NmfTrainer

MakeTrainer = Callable[[Ratings, Any, Backend, Ratings | None, Calibration], Trainer[Model]]


@dataclass(frozen=True)
class Algorithm:
    """One algorithm.

    Attributes:
        params: class of its hyperparameters; it also states the kind of feedback.
        trainer: makes a trainer of (ratings, params, backend, test, calibration).
    """

    params: type[Params]
    trainer: MakeTrainer


_TRAINERS: dict[str, MakeTrainer] = {
    "als": AlsTrainer,
    "als-implicit": AlsTrainer,
    "culsh": culsh.trainer,
    "culsh-implicit": culsh.trainer,
    "ease": EaseTrainer,
    "esgd": lambda ratings, params, backend, test, _: EsgdTrainer(ratings, params, backend, test),
    "nmf": lambda ratings, params, backend, test, _: NmfTrainer(ratings, params, backend, test),
    "sgd": lambda ratings, params, backend, test, _: sgd.trainer(ratings, params, backend, test),
}
ALGORITHMS = {name: Algorithm(params, _TRAINERS[name]) for name, params in PARAMETERS.items()}


def trainer_of(
    ratings: Ratings, params: Params, backend: Backend, test: Ratings | None, calibration: Calibration
) -> Trainer[Model]:
    """The trainer of `params`, before its first epoch."""
    return ALGORITHMS[params.algorithm].trainer(ratings, params, backend, test, calibration)
