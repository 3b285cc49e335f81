"""The package `implicit`, the peer of implicit ALS, if it is installed; and `python -m benchmarks als-lists`."""

from __future__ import annotations

import dataclasses
import importlib
import os
import statistics
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks import datasets
from benchmarks.options import File, Seed
from benchmarks.results import Row, say
from benchmarks.timing import timed
from gpu.calibration import calibrate
from gpu.params import AlsImplicitParams
from gpu.signals import signals_of
from service.base import tuning

SEEDS = (0, 1, 2)
# The peer's two best settings on MovieLens-1M, from a grid over its parameters.
PEERS_BEST = (
    AlsImplicitParams(n_factors=128, regularization=60, alpha=4, regularization_exponent=0, n_epochs=15, n_cg_steps=3),
    AlsImplicitParams(n_factors=64, regularization=30, alpha=4, regularization_exponent=0, n_epochs=15, n_cg_steps=3),
)
# λ weighted by counts: the best of a grid over λ and α, chosen by leave-one-out within the training part.
WEIGHTED = dataclasses.replace(PEERS_BEST[0], regularization=0.045, alpha=5, regularization_exponent=1)


def als_lists(ratings: File, seed: Seed = 42) -> Iterator[Row]:
    """HR@10 and NDCG@10 of als-implicit, and of the package `implicit` if it is installed.

    One rating of each user is held out and ranked among 99 unrated items. Both learn ratings as ones, like the peer's
    published figures. The peer's confidence of a rated pair is its `alpha`, ours is 1 + α, so its 5 equals our 4. The
    peer has its two best settings, ours the same, and the regularizer that the peer lacks.
    """
    rest, positives, negatives = datasets.leave_one_out(datasets.ratings_of(ratings), seed)
    ones, peer = datasets.as_ones(rest), installed()

    def row(code: str, fit: Callable[[AlsImplicitParams], gpu.Model], params: AlsImplicitParams) -> Row:
        say(f"training {code}, {params.n_factors} factors")
        models = [timed(lambda seed=seed: fit(dataclasses.replace(params, seed=seed))) for seed in SEEDS]  # type: ignore[misc]
        rank = gpu.evaluate.sampled_ranking
        hits = [rank(model, rest.by_user, positives, negatives) for model, _ in models]
        hr, ndcg = (tuple(one[name] for one in hits) for name in ("hr@10", "ndcg@10"))
        return {
            "code": code, "n_factors": params.n_factors, "regularization": params.regularization,
            "exponent": params.regularization_exponent, "alpha": params.alpha, "hr_at_10": hr, "ndcg_at_10": ndcg,
            "seconds": statistics.median(seconds for _, seconds in models),
        }  # fmt: skip

    for params in PEERS_BEST:
        if peer is not None:
            yield row("implicit", lambda own: Peer(peer, ones, own, own.n_epochs).fit(), params)
        yield row("als-implicit", lambda own: gpu.fit(ones, own), params)
    yield row("als-implicit, weighted", lambda own: gpu.fit(ones, own), WEIGHTED)


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
