"""`python -m benchmarks time-to-error`: seconds of CULSH-MF and of CUSGD++ to the same error ([004]).

Both have the same number of factors. Each gets its best λ on a held-out tenth of the training part, then both learn the
whole training part. The target is the lowest test RMSE that both reach.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import gpu
from benchmarks.datasets import random_split
from benchmarks.report import say
from gpu.params import SgdParams

ALGORITHMS = ("sgd", "culsh")
SHARES = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)  # multiples of the default λ
HELD_OUT = 0.1  # share of the training part that chooses λ
Curve = list[tuple[float, float]]  # seconds (with the search of neighbors) and test RMSE after each epoch


@dataclass(frozen=True)
class Row:
    """One algorithm: its λ, epochs and seconds to the target, and its lowest test RMSE. Seconds include neighbors."""

    algorithm: str
    n_factors: int
    regularization: float
    target: float
    epochs: int
    seconds: float
    lowest_rmse: float
    lowest_after_s: float


def run(
    train: gpu.Ratings, test: gpu.Ratings, factors: Sequence[int], n_epochs: int, backend: gpu.Backend
) -> Iterator[Row]:
    """A row for each number of factors and algorithm."""
    for n_factors in factors:
        settings = [_best(train, algorithm, n_factors, n_epochs, backend) for algorithm in ALGORITHMS]
        curves = [_curve(train, test, params, backend) for params in settings]
        target = max(min(rmse for _, rmse in curve) for curve in curves)
        for params, curve in zip(settings, curves, strict=True):
            yield _row(params, curve, target)


def _best(train: gpu.Ratings, algorithm: str, n_factors: int, n_epochs: int, backend: gpu.Backend) -> SgdParams:
    inner, held_out = random_split(train, HELD_OUT)
    defaults = gpu.params_for(algorithm, {"n_factors": n_factors, "n_epochs": n_epochs})
    assert isinstance(defaults, SgdParams)  # noqa: S101 - narrows the type
    results = []
    for share in SHARES:
        params = dataclasses.replace(defaults, regularization=defaults.regularization * share)
        results.append((_lowest(inner, held_out, params, backend), params))
        say(f"{algorithm}, F = {n_factors}, regularization = {params.regularization:.4g}: RMSE {results[-1][0]:.4f}")
    return min(results, key=lambda result: result[0])[1]


def _lowest(train: gpu.Ratings, test: gpu.Ratings, params: SgdParams, backend: gpu.Backend) -> float:
    """The lowest RMSE; infinite if the training fails with this λ."""
    try:
        return min(rmse for _, rmse in _curve(train, test, params, backend))
    except (gpu.DeadFactors, gpu.TrainingDiverged):
        return math.inf


def _curve(train: gpu.Ratings, test: gpu.Ratings, params: gpu.Params, backend: gpu.Backend) -> Curve:
    curve: Curve = []
    gpu.fit(
        train, params, backend=backend, test=test,
        on_epoch=lambda report: curve.append((report.seconds, report.metrics["test_rmse"])),
    )  # fmt: skip
    return curve


def _row(params: SgdParams, curve: Curve, target: float) -> Row:
    epochs, seconds = next((n, at) for n, (at, rmse) in enumerate(curve, start=1) if rmse <= target)
    after_s, lowest = min(curve, key=lambda point: point[1])
    return Row(params.algorithm, params.n_factors, params.regularization, target, epochs, seconds, lowest, after_s)
