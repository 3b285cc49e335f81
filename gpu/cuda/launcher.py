"""Launches kernels thousands of times a second."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import cupy

from gpu.cuda.kernels import kernel, module


class Launcher:
    """Kernels of one file, compiled with the same macros; each is looked up once."""

    def __init__(self, name: str, macros: dict[str, int]) -> None:
        """Kernels of `name`.cu; compiled at the first launch."""
        self._name, self._macros = name, macros
        self._found: dict[tuple[str, int], Any] = {}

    def __call__(self, function: str, blocks: int, threads: int, *arguments: Any, shared: int = 0) -> None:
        """Launch a kernel on `blocks`, unless there are 0, with `shared` bytes of dynamic shared memory each."""
        if not blocks:
            return
        found = self._found.get((function, shared))
        if found is None:
            found = self._found[function, shared] = kernel(self._name, function, self._macros, shared)
        found((blocks,), (threads,), arguments, shared_mem=shared)

    @cached_property
    def geometry(self) -> list[int]:
        """The three numbers of the global array `geometry` in the kernel file, which documents them."""
        said = module(self._name, self._macros).get_global("geometry")
        found: list[int] = cupy.ndarray(3, cupy.int32, said).get().tolist()
        return found
