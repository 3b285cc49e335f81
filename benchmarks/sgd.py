"""`python -m benchmarks sgd`: time per epoch and error of the algorithms of stochastic gradient descent.

Models of ratings are judged by their RMSE on the test part. Implicit models are judged by HR@10: the share of users
whose held-out item ranks among the first ten of itself and 99 unrated items. A first training of one epoch compiles the
kernels and uploads the ratings; it is not measured.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import gpu
from benchmarks import sgd_cost, sgd_peer
from benchmarks.als import where
from benchmarks.leave_one_out import leave_one_out
from benchmarks.report import say
from gpu.algorithms import ALGORITHMS, trainer_of
from gpu.calibration import calibrate, in_units
from gpu.params import EsgdParams, SgdParams, params_for
from gpu.signals import NEUTRAL
from gpu.training import loop
from gpu.training.loop import Trainer

NAN = float("nan")
STOPS = (1, 2, 5, 10, 15, 20)  # epochs after which the error is reported
SEED = 42  # seed of the held-out items


@dataclass(frozen=True)
class Run:
    """One training.

    `epoch_ms` is a median without the first epoch. `prepare_s` is the additional time of the first epoch, which lays
    out the ratings and computes residuals of neighbors. `at_stops` has RMSE or HR@10 after epochs 1, 2, 5, 10, 15, 20.
    `epochs_to_target` and `seconds_to_target` are NaN if the target was not reached; the seconds include neighbors and
    preparation. `sgd_cost` counts the bytes and FLOP of an epoch. `floor_ms` is the least time of an H100 for them and
    `share` is `floor_ms / epoch_ms`; both are NaN on the host.
    """

    code: str
    algorithm: str
    n_factors: int
    n_neighbors: int
    n_users: int
    n_ratings: int
    epoch_ms: float
    neighbors_s: float = NAN
    prepare_s: float = NAN
    at_stops: tuple[float, ...] = ()
    target: float = NAN
    epochs_to_target: float = NAN
    seconds_to_target: float = NAN
    gigabytes: float = NAN
    row_gigabytes: float = NAN
    gigaflop: float = NAN
    floor_ms: float = NAN
    limit: str = "not counted"
    share: float = NAN


class Estimates:
    """Training and test ratings in multiples of the unit, as in `gpu.fit`; a lower RMSE is better."""

    def __init__(self, train: gpu.Ratings, test: gpu.Ratings) -> None:
        self.unit = calibrate(train, SgdParams()).unit
        self.train, self.test = in_units(train, self.unit), in_units(test, self.unit)

    def judged(self, report: gpu.EpochReport, training: Trainer[gpu.Model]) -> float:
        """RMSE on the test part, in units of the ratings."""
        del training
        return report.metrics["test_rmse"] * self.unit

    def is_reached(self, value: float, target: float) -> bool:
        """Whether the RMSE is at most `target`."""
        return value <= target


class Lists:
    """Leave-one-out: one rating of each user is held out and ranked among unrated items; a higher HR@10 is better."""

    test: None = None

    def __init__(self, ratings: gpu.Ratings) -> None:
        self.train, self._positives, self._negatives = leave_one_out(ratings, SEED)

    def judged(self, report: gpu.EpochReport, training: Trainer[gpu.Model]) -> float:
        """HR@10 of the held-out items."""
        del report
        rows = self.train.by_user
        return gpu.evaluate.sampled_ranking(training.model(), rows, self._positives, self._negatives)["hr@10"]

    def is_reached(self, value: float, target: float) -> bool:
        """Whether HR@10 is at least `target`."""
        return value >= target


def run(
    estimates: Callable[[], Estimates], lists: Callable[[], Lists], algorithms: Sequence[str], factors: Sequence[int],
    settings: Mapping[str, Any], backend: str, target: float,
) -> Iterator[Run]:  # fmt: skip
    """A training of each algorithm with each number of factors; with `sgd` on the host also LIBMF.

    Args:
        estimates, lists: functions that read the data; each is called only if an algorithm needs it.
        settings: parameters of all trainings.
        backend: "auto", "host" or "device".
    """
    for algorithm in algorithms:
        chosen = gpu.choose(backend)  # type: ignore[arg-type] # `choose` refuses an unknown name
        say(f"{algorithm}: {chosen.name} ({chosen.reason})")
        data = lists() if ALGORITHMS[algorithm].params.is_implicit else estimates()
        peer = sgd_peer.installed() if (algorithm, chosen.name) == ("sgd", "host") else None
        for n_factors in factors:
            params = params_for(algorithm, {**settings, "n_factors": n_factors})
            assert isinstance(params, SgdParams | EsgdParams)  # noqa: S101 - narrows the type
            yield measure(data, params, chosen, target)
            if peer is not None:
                yield theirs(data.train, n_factors, peer)


def measure(data: Estimates | Lists, params: SgdParams | EsgdParams, backend: gpu.Backend, target: float) -> Run:
    """Measure one training of `params.n_epochs` epochs, at least two."""
    loop.train(training_of(data, dataclasses.replace(params, n_epochs=1), backend))
    training = training_of(data, params, backend)
    neighbors_s = training.seconds
    seconds: list[float] = []
    values: list[float] = []

    def on_epoch(report: gpu.EpochReport) -> None:
        seconds.append(report.seconds)
        values.append(data.judged(report, training))

    loop.train(training, on_epoch)
    epoch_s = float(statistics.median(np.diff(seconds)))
    reached = next((epoch for epoch, value in enumerate(values) if data.is_reached(value, target)), None)
    measured = Run(
        f"nearfield, {where(backend)}", params.algorithm, params.n_factors, sgd_cost.n_neighbors(params),
        data.train.n_users, len(data.train), epoch_s * 1e3, neighbors_s, seconds[0] - neighbors_s - epoch_s,
        tuple(values[stop - 1] for stop in STOPS if stop <= len(values)), target,
        *((NAN, NAN) if reached is None else (reached + 1, seconds[reached])),
    )  # fmt: skip
    say(
        f"  F = {params.n_factors}: {measured.epoch_ms:.2f} ms, "
        + " ".join(f"{value:.4f}" for value in measured.at_stops)
    )
    return counted(measured, sgd_cost.work_of(data.train, params), backend)


def counted(measured: Run, work: sgd_cost.Work, backend: gpu.Backend) -> Run:
    """The run with the bytes and FLOP of an epoch, and on a device with their floor."""
    measured = dataclasses.replace(
        measured, gigabytes=work.bytes / 1e9, row_gigabytes=work.row_bytes / 1e9, gigaflop=work.flop / 1e9
    )
    if backend.name == "host":
        return measured
    floor_ms, limit = work.floor_ms()
    return dataclasses.replace(measured, floor_ms=floor_ms, limit=limit, share=floor_ms / measured.epoch_ms)


def training_of(data: Estimates | Lists, params: SgdParams | EsgdParams, backend: gpu.Backend) -> Trainer[gpu.Model]:
    """A training before its first epoch."""
    return trainer_of(data.train, params, backend, data.test, NEUTRAL)


def theirs(ratings: gpu.Ratings, n_factors: int, peer: ModuleType) -> Run:
    """A run of LIBMF, of which only the time is measured."""
    size = ratings.n_users, len(ratings)
    return Run("LIBMF", "sgd", n_factors, 0, *size, sgd_peer.epoch_ms(peer, ratings, n_factors))
