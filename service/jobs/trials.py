"""What a search for parameters tells of each training that it has tried; see `gpu.training.tune`."""

from __future__ import annotations

import dataclasses
from typing import Any

import gpu
from gpu.param_kinds import FactorParams
from gpu.training.tune import Trial


def line_of(trial: Trial, asked: gpu.Params) -> dict[str, Any]:
    """What a trial says on one line: its round, score and seconds, and the parameters that are not as asked for."""
    passes = {"n_epochs": trial.params.n_epochs} if isinstance(trial.params, FactorParams) else {}
    said = {"round": trial.round, **passes, "score": trial.score, "seconds": trial.seconds}
    return said | changed(trial.params, asked)


def changed(params: gpu.Params, asked: gpu.Params) -> dict[str, Any]:
    """Parameters that differ from those asked for, epochs aside: rounds have their own."""
    given = dataclasses.asdict(params)
    return {
        name: given[name]
        for name, value in dataclasses.asdict(asked).items()
        if given[name] != value and name != "n_epochs"
    }
