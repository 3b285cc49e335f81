"""`nearfield bench epoch`: seconds of one epoch of CUSGD++ beside LIBMF, in one run on the same ratings and threads.

LIBMF is measured where its Python binding `libmf` is installed; an epoch of it is the difference of two fits, since its
fit also reads and sorts. Planted ratings stand in for a file where none is given.
"""

from __future__ import annotations

import importlib
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import gpu
from gpu.params import params_for
from service.bench.report import say

# Ridge and step of its best run on MovieLens-1M. Its L1 terms are on by default and slow it down sixfold: off.
LIBMF_OPTIONS = {
    "lambda_p1": 0.0,
    "lambda_q1": 0.0,
    "lambda_p2": 0.05,
    "lambda_q2": 0.05,
    "eta": 0.05,
    "nr_bins": 20,
    "quiet": True,
}


@dataclass(frozen=True)
class Row:
    """One code at one size; `seconds_per_epoch` is a median."""

    code: str
    n_factors: int
    n_ratings: int
    threads: int
    seconds_per_epoch: float


def run(ratings: gpu.Ratings, n_factors: int, n_epochs: int) -> Iterator[Row]:
    """Median over `n_epochs` epochs, the first left out; then LIBMF, three differences of 8 and 2 epochs."""
    threads = len(os.sched_getaffinity(0))  # as many as Numba takes
    yield Row("CUSGD++", n_factors, len(ratings), threads, _ours(ratings, n_factors, n_epochs))
    try:
        libmf = importlib.import_module("libmf.mf")
    except ModuleNotFoundError:
        say("libmf is not installed: nothing to compare with")
        return
    yield Row("LIBMF", n_factors, len(ratings), threads, _libmf(libmf, ratings, n_factors, threads))


def _ours(ratings: gpu.Ratings, n_factors: int, n_epochs: int) -> float:
    seconds: list[float] = []
    gpu.fit(
        ratings,
        params_for("sgd", {"n_factors": n_factors, "n_epochs": n_epochs + 1}),
        on_epoch=lambda report: seconds.append(report.seconds),
    )
    return statistics.median(np.diff(seconds))


def _libmf(libmf, ratings: gpu.Ratings, n_factors: int, threads: int) -> float:  # type: ignore[no-untyped-def]
    users, items, values = ratings.coo()
    triples = np.column_stack([users, items, values]).astype(np.float32)
    differences = []
    for _ in range(3):
        took = {}
        for n_epochs in (2, 8):
            engine = libmf.MF(k=n_factors, nr_iters=n_epochs, nr_threads=threads, **LIBMF_OPTIONS)
            began = time.perf_counter()
            engine.fit(triples)
            took[n_epochs] = time.perf_counter() - began
        differences.append((took[8] - took[2]) / 6)
    return statistics.median(differences)
