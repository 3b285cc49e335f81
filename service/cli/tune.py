"""`nearfield tune`: finds the best hyperparameters of an algorithm for a file of ratings; see `gpu.training.tune`."""

from __future__ import annotations

from typing import Any

import gpu
from gpu.errors import naming
from gpu.training.tune import Trial, tune
from service.cli.offline import Data, OnLine
from service.jobs.trials import changed, line_of


def on_file(data: Data, params: gpu.Params, backend: gpu.Backend, on_line: OnLine) -> dict[str, Any]:
    """Search on `data.train`, judge on `data.test`, and return the closing line: the best parameters and their score.

    Args:
        data: see `Data`; must have test ratings.
        params: the algorithm and the hyperparameters to search around.
        backend: the backend to train on.
        on_line: called with a record of each training (`line_of`), its number and the number of all.
    """
    assert data.test is not None  # noqa: S101 - the command always holds pairs out; this narrows the type

    def on_trial(trial: Trial, n_done: int, n_trials: int) -> None:
        on_line({"trial": n_done, "of": n_trials, **line_of(trial, params)})

    with naming(data.ids):
        result = tune(data.train, data.test, params, backend=backend, on_trial=on_trial)
    scores = [trial.score for trial in result.trials if trial.params == result.best]
    return {
        "done": True,
        "algorithm": params.algorithm,
        "n_trials": len(result.trials),
        f"best_{result.metric}": scores[-1],
        "params": changed(result.best, params),
        "set": " ".join(f"--set {name}={value:.6g}" for name, value in changed(result.best, params).items()),
    }
