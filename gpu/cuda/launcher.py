"""Launches kernels thousands of times a second."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

import cupy
from cupy_backends.cuda.api import driver

from gpu.cuda.kernels import kernel, module


@cache
def blocks_at_once(run: Any, threads: int, shared_bytes: int) -> int:
    """Blocks of a kernel that the device runs at once."""
    fit = driver.occupancyMaxActiveBlocksPerMultiprocessor(run.kernel.ptr, threads, shared_bytes)
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"] * fit)


class Launcher:
    """Kernels of one file, compiled with the same macros; each is looked up once."""

    def __init__(self, name: str, macros: dict[str, int]) -> None:
        """Kernels of `name`.cu; compiled at the first launch."""
        self._name, self._macros = name, macros
        self._kernels: dict[tuple[str, int], Any] = {}

    def __call__(
        self, function: str, blocks: int | tuple[int, int], threads: int, *arguments: Any, shared: int = 0
    ) -> None:
        """Launch a kernel on `blocks`, unless there are 0, with `shared` bytes of dynamic shared memory each."""
        if not blocks:
            return
        run = self._kernels.get((function, shared))
        if run is None:
            run = self._kernels[function, shared] = kernel(self._name, function, self._macros, shared)
        run(blocks if isinstance(blocks, tuple) else (blocks,), (threads,), arguments, shared_mem=shared)

    @cached_property
    def geometry(self) -> list[int]:
        """The three numbers of the global array `geometry` in the kernel file, which documents them."""
        address = module(self._name, self._macros).get_global("geometry")
        numbers: list[int] = cupy.ndarray(3, cupy.int32, address).get().tolist()
        return numbers
