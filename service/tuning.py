"""What a process sets once: threads of kernels and linear algebra, allocators, the collector, and who goes first."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from pathlib import Path

MAX_ARENAS = 2
GC_THRESHOLDS = 20_000, 20, 100  # Python's 700 are passed by each batch of answers: a tenth of the processor's time
# Added to a process's share of the memory in thousandths. The kernel ends the process with the highest sum: a training
# can be repeated and a worker started again, but only the service answers clients.
TRAINER_OOM_SCORE, WORKER_OOM_SCORE = 800, 300
_M_ARENA_MAX = -8  # from malloc.h


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


def limit_arenas() -> None:
    """Few arenas for all threads, Arrow's memory among them; measured on MovieLens-1M: 35 MB less of 400.

    Has to come before the threads. Does nothing where the C library is not glibc.
    """
    import pyarrow as pa  # noqa: PLC0415 (what only computes needs none)

    pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MAX_ARENAS)


def settle() -> None:
    """After a start that has read a long log: give free pages back, and never again look through what stays.

    The garbage collector would otherwise visit all of it, tens of milliseconds each time, while requests wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def prefer_as_victim(score: int, pid: int | str = "self") -> None:
    """Let the kernel end this process before others when memory runs out; its children inherit that.

    Does nothing where the process is gone or the system does not let us.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(score), "ascii")
