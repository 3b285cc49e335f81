"""What kernels of the host are made with. Kernels take `njit` from here, so that their machine code is kept safely."""

from numba import njit, prange

from gpu.base.host import kernel_cache

__all__ = ["njit", "prange"]

kernel_cache.install()
