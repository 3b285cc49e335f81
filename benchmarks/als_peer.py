"""The peer of implicit ALS, where it is installed: the package `implicit` on the same ratings and objective."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.report import say
from gpu.calibration import calibrate, signals_of
from gpu.params import AlsImplicitParams
from service import tuning


def installed() -> ModuleType | None:
    """The package's ALS on the CPU; None, with a message, if it is not installed."""
    try:
        module = importlib.import_module("implicit.cpu.als")
    except ModuleNotFoundError:
        say("implicit is not installed: nothing to compare with")
        return None
    tuning.limit_blas()  # the one that it brought in as well
    return module


def confidences(rows: gpu.Rows, n_columns: int, alpha: float) -> Any:
    """Its input, a CSR matrix of c = 1 + α r: it leaves pairs that are not stored at 1, as we do."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - only where there is a peer

    bounds = np.append(rows.starts, rows.starts[-1] + rows.lengths[-1])
    return csr_matrix((1 + alpha * rows.values, rows.items, bounds), shape=(len(rows.starts), n_columns))


def model_of(module: ModuleType, params: AlsImplicitParams, known: gpu.Calibration, iterations: int) -> Any:
    """Its estimator for the parameters that it has, too; its regularization is λ for every row, our exponent 0."""
    model = module.AlternatingLeastSquares(
        factors=params.n_factors,
        regularization=known.regularization,
        iterations=iterations,
        num_threads=len(os.sched_getaffinity(0)),
        random_state=params.seed,
    )
    model.cg_steps = params.n_cg_steps
    return model


def fit(module: ModuleType, ratings: gpu.Ratings, params: AlsImplicitParams) -> gpu.Model:
    """Train as its own `fit` does, and hand the factors over as a model of ours."""
    known = calibrate(ratings, params)
    theirs, learned = model_of(module, params, known, params.n_epochs), signals_of(ratings, known)
    theirs.fit(confidences(learned.by_user, ratings.n_items, known.alpha), show_progress=False)
    shape = ratings.n_users, ratings.n_items
    model = gpu.Model.zeros(params, 0.0, (0.0, 1.0), *shape, calibration=known)
    model.user_factors[:], model.item_factors[:] = theirs.user_factors, theirs.item_factors
    return model


class Halves:
    """Its two half-iterations, from given tables and in our order."""

    def __init__(self, module: ModuleType, ratings: gpu.Ratings, params: AlsImplicitParams) -> None:
        known = calibrate(ratings, params)
        self._model, learned = model_of(module, params, known, 1), signals_of(ratings, known)
        self._by_user = confidences(learned.by_user, ratings.n_items, known.alpha)
        self._by_item = confidences(learned.by_item, ratings.n_users, known.alpha)

    def items(self, users: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        """Solve `items` (I, F) in place."""
        self._solve(self._by_item, items, users)

    def users(self, users: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        """Solve `users` (U, F) in place."""
        self._solve(self._by_user, users, items)

    def _solve(self, confidence: Any, solved: NDArray[np.float32], fixed: NDArray[np.float32]) -> None:
        model = self._model
        model.solver(confidence, solved, fixed, model.regularization, num_threads=model.num_threads)
