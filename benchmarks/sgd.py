"""`python -m benchmarks sgd`: time per epoch and error of stochastic gradient descent; `time-to-error` with neighbors.

Models of ratings are judged by their RMSE on the test part. Implicit models are judged by HR@10: the share of users
whose held-out item ranks among the first ten of itself and 99 unrated items. A first training of one epoch compiles the
kernels and uploads the ratings; it is not measured.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated

import numpy as np
import typer

import gpu
from benchmarks import datasets, options
from benchmarks.als import where
from benchmarks.options import Factors, Names, Parameters, Source, Where
from benchmarks.results import Row, say
from benchmarks.timing import NAN, median_ms, timed
from gpu.algorithms import ALGORITHMS, params_for, params_of, trainer_of
from gpu.data.calibration import calibrate, in_units
from gpu.data.param_kinds import GradientParams, descending
from gpu.data.signals import NEUTRAL
from gpu.descent.esgd import order_of
from gpu.descent.order import BLOCK, CHUNK
from gpu.descent.params import CulshParams, SgdParams
from gpu.training import loop
from gpu.training.loop import Trainer

STOPS = (1, 2, 5, 10, 15, 20)  # epochs after which the error is reported
# λ and learning rate of LIBMF's best run on MovieLens-1M. Its default L1 terms are off: they make it six times slower.
LIBMF = {
    "lambda_p1": 0.0, "lambda_q1": 0.0, "lambda_p2": 0.05, "lambda_q2": 0.05, "eta": 0.05, "nr_bins": 20, "quiet": True,
}  # fmt: skip
FITS, LONG, SHORT = 3, 8, 2  # number of differences for the median, and epochs of their two fits
STEPS, MOST_BLOCKS = 2, 500  # steps of a block of ESGD, st of [003], and blocks that are looked at
SHARES = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)  # multiples of the default λ

Judge = Callable[[gpu.EpochReport, Trainer[gpu.Model]], float]


def sgd(
    ratings: Source,
    algorithms: Names = "sgd,culsh,culsh-implicit,esgd",
    factors: Factors = "32,128",
    epochs: Annotated[int, typer.Option(help="Epochs; the median excludes the first.", min=2)] = 20,
    target: Annotated[float, typer.Option(help="RMSE, or HR@10, whose time is measured.")] = NAN,
    last: Annotated[
        bool, typer.Option("--last", help="Hold out the last item of each user, not a random one.")
    ] = False,
    set_: Parameters = None,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Milliseconds of an epoch of each algorithm, and its error; on the host also LIBMF.

    A tenth of a file is held out; implicit models learn all but one rating of each user. `epoch_ms` is a median without
    the first epoch. `prepare_s` is the additional time of the first epoch, which lays out the ratings and computes
    residuals of neighbors. `sort_s` is the time to sort shuffled ratings by user and by item, which precedes every
    training. `at_stops` has RMSE or HR@10 after epochs 1, 2, 5, 10, 15, 20, `best` the lowest RMSE or highest HR@10
    and `best_epoch` its epoch. `collisions` is the share of the ratings of a step of `esgd`, two of which make a block
    ([003] section 3), whose user or item occurs in the step again. Times to the target include neighbors and
    preparation; NaN if it was not reached.
    """
    chosen, settings = options.chosen(backend), {**options.parameters(set_), "n_epochs": epochs}
    for algorithm in options.algorithms(algorithms):
        is_implicit = ALGORITHMS[algorithm].params.is_implicit
        for n_factors in options.whole(factors):
            params = descending(params_for(algorithm, {**settings, "n_factors": n_factors}))
            data, test, judged = _lists(ratings, last) if is_implicit else _estimates(ratings, params)
            values, seconds, neighbors_s = _trained(data, test, params, chosen, judged)
            epoch_s = float(statistics.median(np.diff(seconds)))
            is_reached = [value >= target if is_implicit else value <= target for value in values]
            n = is_reached.index(True) if any(is_reached) else None
            best = (max if is_implicit else min)(values)
            row = {"algorithm": algorithm, "n_factors": n_factors, "n_neighbors": params.n_neighbors}
            row |= {"n_users": data.n_users, "n_ratings": len(data), "sort_s": _sorting_s(data)}
            row |= {"collisions": _collisions(data, params.seed)}
            stops = tuple(values[stop - 1] for stop in STOPS if stop <= len(values))
            say(f"  F = {n_factors}: {epoch_s * 1e3:.2f} ms, {' '.join(f'{value:.4f}' for value in stops)}")
            yield {
                "code": f"nearfield, {where(chosen)}", **row, "epoch_ms": epoch_s * 1e3, "neighbors_s": neighbors_s,
                "prepare_s": seconds[0] - neighbors_s - epoch_s, "at_stops": stops,
                "best": best, "best_epoch": values.index(best) + 1,
                "epochs_to_target": NAN if n is None else n + 1,
                "seconds_to_target": NAN if n is None else seconds[n],
            }  # fmt: skip
            if (algorithm, chosen.name) == ("sgd", "host") and (libmf := _libmf()) is not None:
                yield {"code": "LIBMF", **row, "epoch_ms": _ms_of_libmf(libmf, data, n_factors)}


def _sorting_s(ratings: gpu.Ratings) -> float:
    """Seconds to sort the ratings from a random order."""
    order = np.random.default_rng(0).permutation(len(ratings))
    users, items, values = ratings.coo()
    shuffled, shape = (users[order], items[order], values[order]), (ratings.n_users, ratings.n_items)
    return median_ms(lambda: gpu.Ratings.from_coo(*shuffled, shape), FITS) / 1e3


def _collisions(ratings: gpu.Ratings, seed: int) -> float:
    """Share of ratings that share their user or item with another one of the same step of ESGD."""
    order, (users, items, _) = order_of(len(ratings), seed), ratings.coo()
    n_chunks, n_blocks = -(-len(ratings) // CHUNK), min(len(ratings) // BLOCK, MOST_BLOCKS)
    chunks = np.arange(n_blocks * (BLOCK // CHUNK)) * order.stride % n_chunks
    places = (chunks[:, None] * CHUNK + np.arange(CHUNK)).reshape(n_blocks, BLOCK)[:, order.visits]
    places = np.minimum(places, len(ratings) - 1).reshape(-1, BLOCK // STEPS)  # only the last chunk may be short
    collide = np.zeros(places.shape, dtype=np.bool_)
    for rows in (users[places], items[places]):
        by_row = np.argsort(rows, axis=1, kind="stable")
        is_same = np.diff(np.take_along_axis(rows, by_row, axis=1), axis=1) == 0
        in_order = np.pad(is_same, ((0, 0), (0, 1))) | np.pad(is_same, ((0, 0), (1, 0)))
        found = np.empty_like(collide)
        np.put_along_axis(found, by_row, in_order, axis=1)
        collide |= found
    return float(collide.mean()) if n_blocks else NAN


def _estimates(path: Path, params: gpu.Params) -> tuple[gpu.Ratings, gpu.Ratings, Judge]:
    """Training and test ratings in multiples of the unit, as in `gpu.fit`, and their RMSE in units of the ratings."""
    train, test = datasets.train_and_test(path)
    unit = calibrate(train, params).unit
    return in_units(train, unit), in_units(test, unit), lambda report, _: report.metrics["test_rmse"] * unit


def _lists(path: Path, is_last: bool) -> tuple[gpu.Ratings, None, Judge]:
    """Leave-one-out: one rating of each user is held out and ranked among unrated items by HR@10."""
    if is_last:
        from benchmarks.learning import Timeline  # noqa: PLC0415 - it needs the service

        timeline = Timeline.of(path)
        parts = datasets.leave_one_out(timeline.rows, datasets.SEED, timeline.times(len(timeline.values)).seconds)
    else:
        parts = datasets.leave_one_out(datasets.ratings_of(path), datasets.SEED)
    train, positives, negatives = parts
    rank = gpu.evaluate.sampled_ranking
    return train, None, lambda _, training: rank(training.model(), train.by_user, positives, negatives)["hr@10"]


def _trained(
    train: gpu.Ratings, test: gpu.Ratings | None, params: GradientParams, backend: gpu.Backend, judged: Judge
) -> tuple[list[float], list[float], float]:
    """(errors, seconds since the start after each epoch, seconds to find neighbors)."""
    loop.train(trainer_of(train, dataclasses.replace(params, n_epochs=1), backend, test, NEUTRAL))
    training: Trainer[gpu.Model] = trainer_of(train, params, backend, test, NEUTRAL)
    neighbors_s, values, seconds = training.seconds, list[float](), list[float]()

    def on_epoch(report: gpu.EpochReport) -> None:
        seconds.append(report.seconds)
        values.append(judged(report, training))

    loop.train(training, on_epoch)
    return values, seconds, neighbors_s


def _libmf() -> ModuleType | None:
    """LIBMF's Python binding; None, with a message, if it is not installed."""
    try:
        return importlib.import_module("libmf.mf")
    except ModuleNotFoundError:
        say("libmf is not installed: nothing to compare with")
        return None


def _ms_of_libmf(libmf: ModuleType, ratings: gpu.Ratings, n_factors: int) -> float:
    """Milliseconds of an epoch on all cores: the difference of two fits, which also read and sort the ratings."""
    triples, differences = np.column_stack(ratings.coo()).astype(np.float32), []
    for _ in range(FITS):
        took = {}
        for n_epochs in (SHORT, LONG):
            engine = libmf.MF(k=n_factors, nr_iters=n_epochs, nr_threads=len(os.sched_getaffinity(0)), **LIBMF)
            _, took[n_epochs] = timed(lambda engine=engine: engine.fit(triples))  # type: ignore[misc]
        differences.append((took[LONG] - took[SHORT]) / (LONG - SHORT))
    return statistics.median(differences) * 1e3


def time_to_error(
    ratings: Source,
    factors: Factors = "32,128",
    epochs: Annotated[int, typer.Option(help="Maximum of epochs.", min=2)] = 30,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Seconds of CULSH-MF and of CUSGD++ to the same test RMSE, the lowest that both reach ([004]).

    A tenth of a file is held out. Each gets its best λ on a held-out tenth of the rest, then both learn all of it.
    """
    (train, test), chosen = datasets.train_and_test(ratings), options.chosen(backend)
    inner = datasets.random_split(train)

    def curve(part: tuple[gpu.Ratings, gpu.Ratings], params: SgdParams) -> list[tuple[float, float]]:
        """(test RMSE, seconds with the search of neighbors) after each epoch; infinite if the training fails."""
        points: list[tuple[float, float]] = []
        try:
            gpu.fit(
                part[0],
                params,
                backend=chosen,
                test=part[1],
                on_epoch=lambda report: points.append((report.metrics["test_rmse"], report.seconds)),
            )
        except (gpu.DeadFactors, gpu.TrainingDiverged):
            return [(math.inf, math.inf)]
        return points

    for n_factors in options.whole(factors):
        curves = {}
        for kind in (SgdParams, CulshParams):
            defaults = params_of(kind, {"n_factors": n_factors, "n_epochs": epochs})
            trials = [dataclasses.replace(defaults, regularization=defaults.regularization * n) for n in SHARES]
            best = min(trials, key=lambda params: min(curve(inner, params)))
            say(f"{kind.algorithm}, F = {n_factors}: the best regularization is {best.regularization:.4g}")
            curves[best] = curve((train, test), best)
        target = max(min(points)[0] for points in curves.values())
        for best, points in curves.items():
            n, seconds = next((n, after_s) for n, (rmse, after_s) in enumerate(points, 1) if rmse <= target)
            lowest, lowest_after_s = min(points)
            yield {
                "algorithm": best.algorithm, "n_factors": n_factors, "regularization": best.regularization,
                "target": target, "epochs": n, "seconds": seconds, "lowest_rmse": lowest,
                "lowest_after_s": lowest_after_s,
            }  # fmt: skip
