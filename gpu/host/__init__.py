"""Numba primitives of the engine: arrays in, arrays out, one module per kernel family."""

from gpu.host.jit import kernel_cache

kernel_cache.install()
