"""LIBMF through its Python binding `libmf`, if that is installed.

The time of an epoch is the difference of two fits, since a fit also reads and sorts the ratings.
"""

from __future__ import annotations

import importlib
import os
import statistics
import time
from types import ModuleType

import numpy as np

import gpu
from benchmarks.report import say

# λ and learning rate of its best run on MovieLens-1M. Its default L1 terms are off: they make it six times slower.
OPTIONS = {
    "lambda_p1": 0.0,
    "lambda_q1": 0.0,
    "lambda_p2": 0.05,
    "lambda_q2": 0.05,
    "eta": 0.05,
    "nr_bins": 20,
    "quiet": True,
}
FITS, LONG, SHORT = 3, 8, 2  # number of differences for the median, and epochs of their two fits


def installed() -> ModuleType | None:
    """The binding; None, with a message, if it is not installed."""
    try:
        return importlib.import_module("libmf.mf")
    except ModuleNotFoundError:
        say("libmf is not installed: nothing to compare with")
        return None


def epoch_ms(libmf: ModuleType, ratings: gpu.Ratings, n_factors: int) -> float:
    """Milliseconds of an epoch, with the number of threads that Numba uses."""
    triples = np.column_stack(ratings.coo()).astype(np.float32)
    threads = len(os.sched_getaffinity(0))
    differences = []
    for _ in range(FITS):
        took = {}
        for n_epochs in (SHORT, LONG):
            engine = libmf.MF(k=n_factors, nr_iters=n_epochs, nr_threads=threads, **OPTIONS)
            began = time.perf_counter()
            engine.fit(triples)
            took[n_epochs] = time.perf_counter() - began
        differences.append((took[LONG] - took[SHORT]) / (LONG - SHORT))
    return statistics.median(differences) * 1e3
