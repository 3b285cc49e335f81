"""The last line of `nearfield train`: how good the model is, beside a trivial one, and what the training took."""

from __future__ import annotations

import dataclasses
import resource
from typing import Any

import gpu

# Metrics that decide the best epoch, in order of preference, and whether lower or higher is better.
BEST = {"test_rmse": min, "test_ndcg@10": max, "train_rmse": min, "train_loss": min, "relative_error": min}
KIB = 1024


def best_of(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The best value of the deciding metric and its epoch: {"best_test_rmse": 0.84, "best_epoch": 31}."""
    name = next((name for name in BEST if name in lines[-1]), None)
    if name is None:
        return {}
    best = BEST[name](lines, key=lambda line: line[name])
    return {f"best_{name}": best[name], "best_epoch": best["epoch"]}


def metrics_of(line: dict[str, Any]) -> dict[str, Any]:
    """The metrics in the line of an epoch."""
    return {name: value for name, value in line.items() if name not in ("epoch", "seconds")}


def baseline_of(
    model: gpu.Model, train: gpu.Ratings, test: gpu.Ratings | None, backend: gpu.Backend
) -> dict[str, float]:
    """What a model without factors reaches in the metric of `test`, if there is one; a trained model should beat it."""
    if test is None or not len(test):
        return {}
    rows, trivial = train.by_user, gpu.evaluate.baseline(train, is_implicit=model.is_implicit)
    if not model.is_implicit:
        users, items, values = test.coo()
        return {"baseline_test_rmse": gpu.evaluate.rmse(trivial, rows, users, items, values)}
    metrics = gpu.evaluate.ranking(trivial, rows, test, model.middle, backend=backend)
    return {"baseline_test_ndcg@10": metrics["ndcg@10"]}


def kind_of(model: gpu.Model) -> dict[str, Any]:
    """How the training took the values, if it had to decide that: as counts, or as ratings with dislikes.

    With what held-out pairs of the training ratings decided: `n_factors`, a sentence for each decision, `chosen`, the
    trend, and whether what users had comes back.
    """
    calibration = model.calibration
    parts = {"trend": calibration.trend, "repeat": calibration.repeat}
    told = {name: dataclasses.asdict(part) for name, part in parts.items() if part is not None}
    if not model.params.has_values:
        return told
    return {
        "values": calibration.values,
        **({"dislikes_below": calibration.middle} if calibration.values == "ratings" else {}),
        **({"n_factors": calibration.n_factors} if calibration.n_factors else {}),
        **({"chosen": list(calibration.chosen)} if calibration.chosen else {}),
        **told,
    }


def peak_memory_bytes(*, has_team: bool) -> int:
    """Peak memory of this process, or of its largest child if that is more."""
    processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN) if has_team else (resource.RUSAGE_SELF,)
    return max(resource.getrusage(process).ru_maxrss for process in processes) * KIB
