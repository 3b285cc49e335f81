"""Who may use how many threads: kernels all of them, from one thread at a time, linear algebra one."""

from __future__ import annotations

import os


def configure() -> None:
    """Choose Numba's threading layer and let its idle threads sleep; before the first kernel of the process.

    OpenMP is the layer that bears calls from several threads; left alone its threads would spin after each kernel and
    take the processor from the event loop. Processes started from here inherit both. What is set already stays.
    """
    os.environ.setdefault("NUMBA_THREADING_LAYER", "omp")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def limit_blas() -> None:
    """One thread for NumPy's matrix products: they are small, and the kernels around them are parallel already."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 (not every command needs it)

    threadpool_limits(limits=1, user_api="blas")
