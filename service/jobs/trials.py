"""Records of the trainings that a search for parameters has tried; see `gpu.training.tune`."""

from __future__ import annotations

import dataclasses
from typing import Any

import gpu
from gpu.param_kinds import FactorParams
from gpu.training.tune import Trial


def line_of(trial: Trial, requested: gpu.Params) -> dict[str, Any]:
    """The record of a trial: its round, score and seconds, and the parameters that differ from `requested`."""
    passes = {"n_epochs": trial.params.n_epochs} if isinstance(trial.params, FactorParams) else {}
    record = {"round": trial.round, **passes, "score": trial.score, "seconds": trial.seconds}
    return record | changed(trial.params, requested)


def changed(params: gpu.Params, requested: gpu.Params) -> dict[str, Any]:
    """Parameters that differ from the requested ones, without `n_epochs`, which each round sets."""
    values = dataclasses.asdict(params)
    return {
        name: values[name]
        for name, value in dataclasses.asdict(requested).items()
        if values[name] != value and name != "n_epochs"
    }
