"""Nearfield's engine: arrays in, arrays out. Importing it needs neither CuPy nor a GPU, and loads no kernel.

The axis alphabet of every docstring: U users, I items, F factors, B batch, K neighbors, N ratings, H hash bits,
T items with weights. [000] to [004] are papers: docs/algorithms.md has their references, and states every equation,
algorithm and section of them that is cited. A number without a paper belongs to the paper that the module names.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpu.algorithms import ALGORITHMS, Run, most_factors, params_for, run_here
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.base.backend import HOST, Backend, choose
from gpu.base.errors import (
    BackendUnavailable,
    DeadFactors,
    EngineError,
    InvalidInput,
    InvalidParams,
    InvalidRatings,
    NotEnoughMemory,
    TrainingDiverged,
)
from gpu.data.calibration import FEW, calibrate, in_units, kind_of
from gpu.data.decay import Times, decayed, weighing, weighted
from gpu.data.evidence import amounts
from gpu.data.model import NO_NEIGHBOR, Model
from gpu.data.outliers import winsorized
from gpu.data.param_kinds import Params
from gpu.data.ratings import Ratings, Rows
from gpu.data.recency import in_order
from gpu.data.signals import Calibration, of_signals
from gpu.descent.params import CulshImplicitParams, CulshParams, EsgdParams, SgdParams
from gpu.ease.params import EaseParams
from gpu.neighbors.params import NeighborsParams
from gpu.next.params import NextParams
from gpu.nmf.params import NmfParams
from gpu.training import evaluate
from gpu.training.check import check_steps, check_trained
from gpu.training.loop import EpochReport, OnEpoch
from gpu.training.selection import Selection, selected

__all__ = [
    "ALGORITHMS",
    "HOST",
    "NO_NEIGHBOR",
    "AlsImplicitParams",
    "AlsParams",
    "Backend",
    "BackendUnavailable",
    "Calibration",
    "CulshImplicitParams",
    "CulshParams",
    "DeadFactors",
    "EaseParams",
    "EngineError",
    "EpochReport",
    "EsgdParams",
    "InvalidInput",
    "InvalidParams",
    "InvalidRatings",
    "Model",
    "NeighborsParams",
    "NextParams",
    "NmfParams",
    "NotEnoughMemory",
    "Params",
    "Ratings",
    "Rows",
    "Run",
    "SgdParams",
    "Times",
    "TrainingDiverged",
    "choose",
    "evaluate",
    "fit",
    "most_factors",
    "params_for",
    "run_here",
    "selected",
    "usable",
    "weighing",
]


def fit(
    ratings: Ratings,
    params: Params,
    *,
    backend: Backend = HOST,
    test: Ratings | None = None,
    on_epoch: OnEpoch | None = None,
    run: Run = run_here,
    times: Times | None = None,
    selection: Selection | None = None,
) -> Model:
    """Train the model that `params` names, with what held-out pairs decide (`gpu.training.selection`).

    On the host, equal ratings, rows, keys and parameters give an equal model, bit for bit, for any number of threads.
    EASE and next need the same number of threads, since LAPACK sums in an order that depends on it. On a device this
    holds for ALS and NMF, and for algorithms with `SgdParams` if `deterministic` is set. It does not hold for ESGD,
    whose additions run in any order.

    Args:
        ratings: ratings to learn from; see `usable`.
        params: an instance of one of the classes in `ALGORITHMS`.
        backend: where to compute.
        test: ratings to measure after each epoch, with the rows of `ratings`; never learned from.
        on_epoch: called after each epoch; without it no metrics are computed.
        run: runs all epochs, by default in this process; `service.extras.ranks.ranks` does so in several.
        times: of `ratings`; parameters with a half-life, and algorithms in which order counts, need them. With a
            half-life, gradient descent runs on the host (`weighing`).
        selection: what held-out pairs decide, of these ratings and `params`. Default: decided here.

    Raises:
        InvalidParams: `params` needs times, and `times` is None; or steps of descent that are too short to learn.
        InvalidRatings: there is no rating, or one that the algorithm cannot use.
        NotEnoughMemory: the training would need more than is free on the host or device where it computes.
        TrainingDiverged: a parameter is no longer finite.
        DeadFactors: all factors of a side are about zero.
    """
    ratings, _ = usable(ratings, params)
    check_steps(params, ratings)
    if params.is_ordered:
        ratings = in_order(ratings, times, params)
    params, reasons, n_factors = selection or selected(ratings, params, backend)
    calibration = replace(calibrate(ratings, params), chosen=reasons, n_factors=n_factors)
    if params.half_life_days is None:
        model = _fit(ratings, params, backend, test, on_epoch, calibration, run)
    else:
        if params.refits == "exact":
            signals, calibration = decayed(ratings, times, calibration, params)
            model = run(signals, params, backend, test, on_epoch, of_signals(calibration))
            model.calibration = calibration
        else:
            aged, usual = weighted(ratings, times, params)
            calibration = replace(calibrate(aged, params), usual_weight=usual, chosen=reasons)
            model = _fit(aged, params, weighing(params, backend), test, on_epoch, calibration, run)
        assert times is not None  # noqa: S101 - checked by `decayed` and `weighted`; this narrows the type
        model.calibration = replace(model.calibration, as_of_s=times.as_of_s)
    check_trained(model, ratings)
    return model


def usable(ratings: Ratings, params: Params) -> tuple[Ratings, int]:
    """(the ratings that a training with `params` learns from, number of changed ratings).

    Ratings far beyond all others are clipped to the nearest plausible one (`gpu.data.outliers`). Counts of any size
    stay: implicit models dampen or bound them. For NMF a few values below 0 become 0. With `calibration=none` all
    ratings stay.

    Raises:
        InvalidRatings: there is no rating.
    """
    if not len(ratings):
        raise InvalidRatings("Invalid length of ratings: expected at least one rating to train on, got none")
    if not params.is_nonnegative:
        return (ratings, 0) if params.is_implicit or not params.is_calibrated else winsorized(ratings)
    ratings = ratings.with_values(amounts(ratings.by_user.values), amounts(ratings.by_item.values))
    if not params.is_calibrated:
        return ratings, 0
    sane, n_far = winsorized(ratings) if kind_of(ratings.by_user.values) == "ratings" else (ratings, 0)
    n_negative = int(np.count_nonzero(sane.by_user.values < 0))
    if 0 < n_negative <= FEW * len(sane):
        return sane.clipped(0.0, math.inf), n_far + n_negative
    return sane, n_far


def _fit(
    ratings: Ratings,
    params: Params,
    backend: Backend,
    test: Ratings | None,
    on_epoch: OnEpoch | None,
    calibration: Calibration,
    run: Run,
) -> Model:
    """Train on ratings as they are, or an explicit model in multiples of their unit; then scale it and errors back."""
    if params.is_implicit:
        return run(ratings, params, backend, test, on_epoch, calibration)
    unit, scale = calibration.unit, ratings.scale
    ratings, test = in_units(ratings, unit), None if test is None else in_units(test, unit)
    on_epoch = None if on_epoch is None else _in_ratings(on_epoch, unit)
    model = run(ratings, params, backend, test, on_epoch, calibration)
    model.to_ratings(calibration, scale)
    return model


def _in_ratings(on_epoch: OnEpoch, unit: float) -> OnEpoch:
    """`on_epoch` with errors converted from multiples of `unit` to ratings; a loss is a squared error."""
    factors = {"train_rmse": unit, "test_rmse": unit, "train_loss": unit**2}

    def report(epoch: EpochReport) -> None:
        on_epoch(replace(epoch, metrics={name: value * factors[name] for name, value in epoch.metrics.items()}))

    return report
