"""Helpers of tests that train."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numba import get_num_threads, set_num_threads

import gpu
from gpu.base.backend import Backend
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.training.loop import EpochReport


@contextmanager
def one_thread() -> Iterator[None]:
    """Kernels run in one thread within the block."""
    threads = get_num_threads()
    set_num_threads(1)
    try:
        yield
    finally:
        set_num_threads(threads)


def assert_equal_models(one: Model, other: Model) -> None:
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name], err_msg=name)


def last_metrics(ratings: gpu.Ratings, test: gpu.Ratings, params: Params, backend: Backend) -> dict[str, float]:
    reports: list[EpochReport] = []
    gpu.fit(ratings, params, backend=backend, test=test, on_epoch=reports.append)
    return dict(reports[-1].metrics)
