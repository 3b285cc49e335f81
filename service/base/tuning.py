"""Process-wide settings: threads of kernels and linear algebra, allocators, garbage collection, OOM priority."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
from pathlib import Path

MAX_ARENAS = 2  # arenas of malloc
GC_THRESHOLDS = 20_000, 20, 100  # each batch of answers exceeds Python's 700, which cost a tenth of the CPU time
# oom_score_adj, added to a process's share of the memory in thousandths. Linux kills the process with the highest sum.
# A training can be repeated and a worker restarted, but only the service answers clients.
TRAINER_OOM_SCORE, WORKER_OOM_SCORE = 800, 300
CPU_MAX = Path("/sys/fs/cgroup/cpu.max")  # "<quota> <period>" in microseconds, or "max <period>"
AUTOGROUP = Path("/proc/self/autogroup")  # takes the niceness of the session
_M_ARENA_MAX = -8  # from malloc.h


def configure() -> None:
    """Choose Numba's threading layer and let its idle threads sleep. Call it before the first kernel of the process.

    The OpenMP layer supports calls from several threads. By default its threads spin after each kernel and take the
    processor from the event loop. Child processes inherit both variables. Variables that are already set stay.
    """
    os.environ.setdefault("NUMBA_THREADING_LAYER", "omp")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def limit_blas() -> None:
    """Use one thread for NumPy's matrix products: they are small, and the kernels around them are already parallel."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 (not every command needs it)

    threadpool_limits(limits=1, user_api="blas")


def limit_arenas() -> None:
    """Limit malloc's arenas, and let Arrow use malloc too; saves 35 of 400 MB on MovieLens-1M.

    Call it before threads start. Does nothing if the C library is not glibc.
    """
    import pyarrow as pa  # noqa: PLC0415 (only processes of the service need it)

    pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MAX_ARENAS)


def settle() -> None:
    """Return free pages to the system after the start, and exclude all present objects from garbage collection.

    Otherwise each collection would visit all of them, for tens of milliseconds, while requests wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    trim()


def trim() -> None:
    """Return free pages to the system. Does nothing if the C library is not glibc."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def n_cores() -> int:
    """Cores that this process may use: those it is bound to, at most its container's share of time (cgroup v2).

    A container with a share of two cores sees all cores of the machine.
    """
    n_bound = len(os.sched_getaffinity(0))
    try:
        quota, period = CPU_MAX.read_text("ascii").split()
        return min(n_bound, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):  # no cgroup of version 2, or "max"
        return n_bound


def go_after_others(niceness: int) -> None:
    """Make this process nicer than its parent was; call it in a session of its own.

    Linux with autogroups first divides the processor among sessions, without regard to niceness. In the session of a
    service this process would use up the service's share, and requests would wait for other busy sessions. So it has
    its own session, which is as nice as the process. Without autogroups only the niceness counts.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(niceness), "ascii")


def prefer_as_victim(score: int, pid: int | str = "self") -> None:
    """Make Linux kill this process, and its children, before others when memory runs out.

    Does nothing if the process is gone or the system forbids it.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(score), "ascii")


def as_victim(command: list[str], score: int) -> list[str]:
    """`command`, which has the score of `prefer_as_victim` from its first page of memory on.

    A shell sets it before it becomes the command: the starting process may itself wait for memory by then.
    """
    return ["/bin/sh", "-c", f'{{ echo {score} >/proc/self/oom_score_adj; }} 2>/dev/null; exec "$0" "$@"', *command]
