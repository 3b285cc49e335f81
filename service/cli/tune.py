"""`nearfield tune`: which settings of an algorithm suit a file of ratings; see `gpu.training.tune`."""

from __future__ import annotations

from typing import Any

import gpu
from gpu.errors import naming
from gpu.training.tune import Trial, tune
from service.cli.offline import Data, OnLine
from service.jobs.trials import changed, line_of


def on_file(data: Data, params: gpu.Params, backend: gpu.Backend, on_line: OnLine) -> dict[str, Any]:
    """Search on `data.train`, judged on `data.test`, and return the closing line: the best settings and their score.

    Args:
        on_line: called with a line for each training (`line_of`) and how many there are.
    """
    assert data.test is not None  # noqa: S101 - the command always holds pairs out; this narrows the type

    def on_trial(trial: Trial, n_done: int, n_trials: int) -> None:
        on_line({"trial": n_done, "of": n_trials, **line_of(trial, params)})

    with naming(data.ids):
        found = tune(data.train, data.test, params, backend=backend, on_trial=on_trial)
    scores = [trial.score for trial in found.trials if trial.params == found.best]
    return {
        "done": True,
        "algorithm": params.algorithm,
        "n_trials": len(found.trials),
        f"best_{found.metric}": scores[-1],
        "params": changed(found.best, params),
        "set": " ".join(f"--set {name}={value:.6g}" for name, value in changed(found.best, params).items()),
    }
