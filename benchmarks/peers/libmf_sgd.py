"""LIBMF through its Python binding `libmf`: matrix factorization by SGD, without biases."""

from __future__ import annotations

import importlib
import os
import time

import numpy as np

from benchmarks.peers.contract import ESTIMATES, Facts, Fitted, Peer, Problem, Settings, rounded

NO_L1 = {"lambda_p1": 0.0, "lambda_q1": 0.0}  # the L1 terms are on by default


def grid(facts: Facts) -> list[Settings]:
    """5 λ × 2 sizes × 2 numbers of epochs; the library divides ratings and λ by the standard deviation."""
    return [
        {**NO_L1, "lambda_p2": ridge, "lambda_q2": ridge, "k": k, "nr_iters": n_epochs, "eta": 0.05}
        for ridge in (rounded(times * facts.std) for times in (0.02, 0.045, 0.09, 0.18, 0.36))
        for k in (16, 128)
        for n_epochs in (20, 60)
    ]


def fit(problem: Problem, settings: Settings) -> Fitted:
    """Fit and estimate. The library reads row numbers as float32, which is exact up to 2²⁴."""
    libmf = importlib.import_module("libmf.mf")
    engine = libmf.MF(**settings, nr_threads=int(os.environ["OMP_NUM_THREADS"]), quiet=True)
    triples = np.column_stack([problem.users, problem.items, problem.values]).astype(np.float32)
    began = time.perf_counter()
    engine.fit(triples)
    seconds = time.perf_counter() - began
    pairs = np.stack(
        [problem.test_users, problem.test_items]
    ).T  # `predict` expects the memory layout of this transpose
    return Fitted(seconds, {"estimates": engine.predict(pairs)})


PEERS = (Peer("LIBMF", "libmf", ESTIMATES, grid, fit),)
