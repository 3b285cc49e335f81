"""scikit-surprise: matrix factorization by SGD, and biases alone."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.contract import ESTIMATES, SEED, Facts, Fitted, Peer, Problem, Settings, rounded


def svd_grid(facts: Facts) -> list[Settings]:
    """5 λ × 2 steps × 2 numbers of epochs. λ is proportional to the scale, the step inversely."""
    return [
        {"n_epochs": n_epochs, "reg_all": rounded(ridge * facts.std), "lr_all": rounded(step / facts.std)}
        for ridge in (0.02, 0.05, 0.1, 0.2, 0.4)
        for step in (0.003, 0.008)
        for n_epochs in (20, 60)
    ]


def baseline_grid(facts: Facts) -> list[Settings]:
    """4 × 4 priors of users and items, by alternating least squares; they do not depend on the scale."""
    del facts
    return [
        {"bsl_options": {"method": "als", "n_epochs": 20, "reg_u": reg_u, "reg_i": reg_i}}
        for reg_u in (2, 5, 10, 20)
        for reg_i in (1, 3, 6, 12)
    ]


def fit_svd(problem: Problem, settings: Settings) -> Fitted:
    """Fit `SVD`."""
    return _fit(problem, lambda surprise: surprise.SVD(**settings, random_state=SEED))


def fit_baseline(problem: Problem, settings: Settings) -> Fitted:
    """Fit `BaselineOnly`."""
    return _fit(problem, lambda surprise: surprise.BaselineOnly(**settings, verbose=False))


def _fit(problem: Problem, algorithm: Callable[[ModuleType], Any]) -> Fitted:
    surprise = importlib.import_module("surprise")
    trainset = _trainset(surprise, problem)
    model = algorithm(surprise)
    began = time.perf_counter()
    model.fit(trainset)
    seconds = time.perf_counter() - began
    return Fitted(seconds, {"estimates": _estimates(model, trainset, problem)})


def _trainset(surprise: ModuleType, problem: Problem) -> Any:
    scale = (float(problem.values.min()), float(problem.values.max()))
    triples = zip(problem.users.tolist(), problem.items.tolist(), problem.values.tolist(), strict=True)
    raw = [(user, item, value, None) for user, item, value in triples]
    return surprise.Dataset(surprise.Reader(rating_scale=scale)).construct_trainset(raw)


def _estimates(model: Any, trainset: Any, problem: Problem) -> NDArray[np.float32]:
    pairs = zip(problem.test_users.tolist(), problem.test_items.tolist(), strict=True)
    return np.array([model.predict(user, item).est for user, item in pairs], dtype=np.float32)


PEERS = (
    Peer("Surprise BaselineOnly", "scikit-surprise", ESTIMATES, baseline_grid, fit_baseline),
    Peer("Surprise SVD", "scikit-surprise", ESTIMATES, svd_grid, fit_svd),
)
