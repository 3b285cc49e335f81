"""The peer of implicit ALS: the package `implicit`, if it is installed, on the same ratings and objective."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.results import say
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


class Peer:
    """The peer's estimator with equal parameters, and its inputs: CSR matrices of c = 1 + α r.

    Pairs that are not stored have c = 1, as in ours. Its λ is the same for every row, which is our exponent 0.
    """

    def __init__(self, module: ModuleType, ratings: gpu.Ratings, params: AlsImplicitParams, n_epochs: int) -> None:
        self.params, self.calibration = params, calibrate(ratings, params)
        self.model = module.AlternatingLeastSquares(
            factors=params.n_factors,
            regularization=self.calibration.regularization,
            iterations=n_epochs,
            num_threads=len(os.sched_getaffinity(0)),
            random_state=params.seed,
        )
        self.model.cg_steps = params.n_cg_steps
        signals = signals_of(ratings, self.calibration)
        self._by_user = self._confidences(signals.by_user, ratings.n_items)
        self._by_item = self._confidences(signals.by_item, ratings.n_users)

    def fit(self) -> gpu.Model:
        """Train by the peer's own `fit`; returns its factors as a model of ours."""
        self.model.fit(self._by_user, show_progress=False)
        n_users, n_items = self._by_user.shape
        model = gpu.Model.zeros(self.params, 0.0, (0.0, 1.0), n_users, n_items, calibration=self.calibration)
        model.user_factors[:], model.item_factors[:] = self.model.user_factors, self.model.item_factors
        return model

    def solve_items(self, users: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        """Solve `items` (I, F) in place."""
        self._solve(self._by_item, items, users)

    def solve_users(self, users: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        """Solve `users` (U, F) in place."""
        self._solve(self._by_user, users, items)

    def _solve(self, confidence: Any, solved: NDArray[np.float32], fixed: NDArray[np.float32]) -> None:
        self.model.solver(confidence, solved, fixed, self.model.regularization, num_threads=self.model.num_threads)

    def _confidences(self, rows: gpu.Rows, n_columns: int) -> Any:
        from scipy.sparse import csr_matrix  # noqa: PLC0415 - only if the peer is installed

        bounds = np.append(rows.starts, rows.starts[-1] + rows.lengths[-1])
        values = 1 + self.calibration.alpha * rows.values
        return csr_matrix((values, rows.items, bounds), shape=(len(rows.starts), n_columns))
