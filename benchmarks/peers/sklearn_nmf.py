"""scikit-learn's NMF: coordinate descent and multiplicative updates, 100 iterations each."""

from __future__ import annotations

import functools
import importlib
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.peers.contract import FACTORS, SEED, Facts, Fitted, Peer, Problem, Settings

N_ITERATIONS = 100
DENSE_FROM = 0.15  # least share of entries for a dense matrix


def grid(facts: Facts) -> list[Settings]:
    """The library's three initializations."""
    return [{**default(facts), "init": init} for init in ("nndsvda", "nndsvdar", "random")]


def default(facts: Facts) -> Settings:
    """The number of factors of ours."""
    return {"n_components": facts.n_factors}


def fit(problem: Problem, settings: Settings, solver: str) -> Fitted:
    """W and H after all iterations, in float32."""
    decomposition = importlib.import_module("sklearn.decomposition")
    matrix = _matrix(problem)
    model = decomposition.NMF(**settings, solver=solver, tol=0, max_iter=N_ITERATIONS, random_state=SEED)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about missing convergence
        W = model.fit_transform(matrix)
    return Fitted(time.perf_counter() - began, {"W": W, "H": model.components_})


def _matrix(problem: Problem) -> Any:
    sparse = importlib.import_module("scipy.sparse")
    matrix = sparse.csr_matrix((problem.values, (problem.users, problem.items)), shape=problem.shape)
    is_dense = len(problem.values) >= DENSE_FROM * np.prod(problem.shape)
    return matrix.toarray() if is_dense else matrix


PEERS = tuple(
    Peer(f"scikit-learn {solver}", "scikit-learn", FACTORS, grid, functools.partial(fit, solver=solver), default)
    for solver in ("cd", "mu")
)
