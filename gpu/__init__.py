"""Nearfield's engine: arrays in, arrays out. Importing it needs neither CuPy nor a GPU.

The axis alphabet of every docstring: U users, I items, F factors, B batch, K neighbors, N ratings, H hash bits,
T items with weights. [000] to [004] are papers: docs/algorithms.md has their references, and states every equation,
algorithm and section of them that is cited. A number without a paper belongs to the paper that the module names.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpu.algorithms import ALGORITHMS, trainer_of
from gpu.backend import HOST, Backend, choose
from gpu.calibration import FEW, Calibration, calibrate, in_units, kind_of
from gpu.errors import (
    BackendUnavailable,
    DeadFactors,
    EngineError,
    InvalidInput,
    InvalidParams,
    InvalidRatings,
    NotEnoughMemory,
    TrainingDiverged,
)
from gpu.model import NO_NEIGHBOR, Model
from gpu.param_kinds import Params
from gpu.params import (
    AlsImplicitParams,
    AlsParams,
    CulshImplicitParams,
    CulshParams,
    EaseParams,
    EsgdParams,
    NmfParams,
    SgdParams,
    params_for,
)
from gpu.ratings import Ratings, Rows
from gpu.training import evaluate
from gpu.training.check import check_trained
from gpu.training.loop import EpochReport, OnEpoch, train
from gpu.training.outliers import winsorized

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
    "NmfParams",
    "NotEnoughMemory",
    "Params",
    "Ratings",
    "Rows",
    "SgdParams",
    "TrainingDiverged",
    "choose",
    "evaluate",
    "fit",
    "params_for",
    "usable",
]


def fit(
    ratings: Ratings,
    params: Params,
    *,
    backend: Backend = HOST,
    test: Ratings | None = None,
    on_epoch: OnEpoch | None = None,
) -> Model:
    """Train the model that `params` names.

    Equal ratings, rows, keys and parameters give an equal model, bit for bit, whatever the number of threads; EASE
    only with the same number, since LAPACK sums in another order with another. On a device that holds for ALS and NMF,
    for the other algorithms of `SgdParams` where `deterministic` is set, and not for ESGD: what it adds, it adds in any
    order.

    Args:
        ratings: what to learn from; see `usable`.
        params: one of the classes in `ALGORITHMS`.
        backend: where to compute.
        test: ratings to measure after each epoch; never learned from. Rows as in `ratings`.
        on_epoch: called after each epoch; metrics are only computed where it is given.

    Raises:
        InvalidRatings: there is no rating, or one that the algorithm cannot use.
        NotEnoughMemory: the training would need more than is free on the host or device where it computes.
        TrainingDiverged: a parameter is no longer finite.
        DeadFactors: the factors say nothing.
    """
    if not len(ratings):
        raise InvalidRatings("Invalid length of ratings: expected at least one rating to train on, got none")
    ratings, _ = usable(ratings, params)
    calibration = calibrate(ratings, params)
    if params.is_implicit:
        model = train(trainer_of(ratings, params, backend, test, calibration), on_epoch)
    else:
        model = _fit_ratings(ratings, params, backend, test, on_epoch, calibration)
    check_trained(model, ratings)
    return model


def usable(ratings: Ratings, params: Params) -> tuple[Ratings, int]:
    """What a training with `params` learns of `ratings`: (these, how many were changed).

    Ratings far beyond all others count as the nearest one that is not (`gpu.training.outliers`). Counts stay, which
    may be of any size: implicit models dampen or bound them themselves. Of NMF a few values below 0 count as 0.
    """
    if not len(ratings):
        return ratings, 0
    if not params.is_nonnegative:
        return (ratings, 0) if params.is_implicit else winsorized(ratings)
    found, n_far = winsorized(ratings) if kind_of(ratings.by_user.values) == "ratings" else (ratings, 0)
    n_negative = int(np.count_nonzero(found.by_user.values < 0))
    if 0 < n_negative <= FEW * len(found):
        return found.clipped(0.0, math.inf), n_far + n_negative
    return found, n_far


def _fit_ratings(
    ratings: Ratings,
    params: Params,
    backend: Backend,
    test: Ratings | None,
    on_epoch: OnEpoch | None,
    calibration: Calibration,
) -> Model:
    """Train an explicit model on ratings in multiples of their unit; its parameters and errors are of the ratings."""
    unit, scale = calibration.unit, ratings.scale
    ratings, test = in_units(ratings, unit), None if test is None else in_units(test, unit)
    on_epoch = None if on_epoch is None else _in_ratings(on_epoch, unit)
    model = train(trainer_of(ratings, params, backend, test, calibration), on_epoch)
    model.to_ratings(calibration, scale)
    return model


def _in_ratings(on_epoch: OnEpoch, unit: float) -> OnEpoch:
    """`on_epoch` with errors in multiples of `unit` turned into errors of ratings; a loss is a squared one."""
    factors = {"train_rmse": unit, "test_rmse": unit, "train_loss": unit**2}

    def report(epoch: EpochReport) -> None:
        on_epoch(replace(epoch, metrics={name: value * factors[name] for name, value in epoch.metrics.items()}))

    return report
