"""The library `implicit`: alternating least squares for implicit feedback."""

from __future__ import annotations

import importlib
import time

from benchmarks.peers.contract import LISTS, SEED, Facts, Fitted, Peer, Problem, Settings, rounded


def grid(facts: Facts) -> list[Settings]:
    """3 α × 4 λ. The library's confidence is α·r for rated pairs and 1 for others; λ is the same for every row."""
    center = 1 / (facts.mean * facts.density**0.5)
    return [
        {"factors": 128, "alpha": rounded(center * times), "regularization": ridge}
        for times in (1 / 4, 1, 4)
        for ridge in (0.5, 5.0, 20.0, 80.0)
    ]


def fit(problem: Problem, settings: Settings) -> Fitted:
    """The factors after the library's own `fit`."""
    als = importlib.import_module("implicit.cpu.als")
    sparse = importlib.import_module("scipy.sparse")
    matrix = sparse.csr_matrix((problem.values, (problem.users, problem.items)), shape=problem.shape)
    model = als.AlternatingLeastSquares(**settings, random_state=SEED)
    began = time.perf_counter()
    model.fit(matrix, show_progress=False)
    seconds = time.perf_counter() - began
    return Fitted(seconds, {"user_factors": model.user_factors, "item_factors": model.item_factors})


PEERS = (Peer("implicit ALS", "implicit", LISTS, grid, fit),)
