"""The peer of implicit ALS: the package `implicit`, if it is installed, on the same ratings and objective."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.report import say
from gpu.calibration import calibrate
from gpu.params import AlsImplicitParams
from gpu.signals import signals_of
from service.base import tuning


def installed() -> ModuleType | None:
    """The package's ALS on the CPU; None, with a message, if it is not installed."""
    try:
        module = importlib.import_module("implicit.cpu.als")
    except ModuleNotFoundError:
        say("implicit is not installed: nothing to compare with")
        return None
    tuning.limit_blas()  # also of the BLAS that this import has loaded
    return module


def confidences(rows: gpu.Rows, n_columns: int, alpha: float) -> Any:
    """The peer's input: a CSR matrix of c = 1 + α r. Pairs that are not stored have c = 1, as in ours."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - only if the peer is installed

    bounds = np.append(rows.starts, rows.starts[-1] + rows.lengths[-1])
    return csr_matrix((1 + alpha * rows.values, rows.items, bounds), shape=(len(rows.starts), n_columns))


def model_of(module: ModuleType, params: AlsImplicitParams, calibration: gpu.Calibration, iterations: int) -> Any:
    """The peer's estimator with equal parameters. Its λ is the same for every row, which is our exponent 0."""
    model = module.AlternatingLeastSquares(
        factors=params.n_factors,
        regularization=calibration.regularization,
        iterations=iterations,
        num_threads=len(os.sched_getaffinity(0)),
        random_state=params.seed,
    )
    model.cg_steps = params.n_cg_steps
    return model


def fit(module: ModuleType, ratings: gpu.Ratings, params: AlsImplicitParams) -> gpu.Model:
    """Train by the peer's own `fit`; returns its factors as a model of ours."""
    calibration = calibrate(ratings, params)
    theirs, signals = model_of(module, params, calibration, params.n_epochs), signals_of(ratings, calibration)
    theirs.fit(confidences(signals.by_user, ratings.n_items, calibration.alpha), show_progress=False)
    shape = ratings.n_users, ratings.n_items
    model = gpu.Model.zeros(params, 0.0, (0.0, 1.0), *shape, calibration=calibration)
    model.user_factors[:], model.item_factors[:] = theirs.user_factors, theirs.item_factors
    return model


class Halves:
    """The peer's two half-iterations, which update given tables in place."""

    def __init__(self, module: ModuleType, ratings: gpu.Ratings, params: AlsImplicitParams) -> None:
        calibration = calibrate(ratings, params)
        self._model, signals = model_of(module, params, calibration, 1), signals_of(ratings, calibration)
        self._by_user = confidences(signals.by_user, ratings.n_items, calibration.alpha)
        self._by_item = confidences(signals.by_item, ratings.n_users, calibration.alpha)

    def items(self, users: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        """Solve `items` (I, F) in place."""
        self._solve(self._by_item, items, users)

    def users(self, users: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        """Solve `users` (U, F) in place."""
        self._solve(self._by_user, users, items)

    def _solve(self, confidence: Any, solved: NDArray[np.float32], fixed: NDArray[np.float32]) -> None:
        model = self._model
        model.solver(confidence, solved, fixed, model.regularization, num_threads=model.num_threads)
