"""What kernels of the host are made with. Kernels take `njit` from here, so that their machine code is kept safely."""

import contextlib
import multiprocessing

from numba import njit, prange
from numba.np.ufunc import parallel

from gpu.base.host import kernel_cache

__all__ = ["njit", "prange"]

kernel_cache.install()
# Numba starts its threads under a lock of the usual kind of process, and makes it then. From Python 3.14 on that kind
# shares locks by names: each process would have a second one, which removes the name and warns if the first was killed.
with contextlib.suppress(OSError):  # without /dev/shm Numba says what that means
    parallel._backend_init_process_lock = multiprocessing.get_context("fork").RLock()  # type: ignore[assignment]
