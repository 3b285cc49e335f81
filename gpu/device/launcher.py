"""Launches of kernels that are repeated thousands of times a second."""

from __future__ import annotations

from typing import Any

from gpu.device.kernels import kernel


class Launcher:
    """Kernels of one file, compiled with the same macros; each is looked up once."""

    def __init__(self, name: str, macros: dict[str, int]) -> None:
        """Kernels of `name`.cu; compiled at the first launch."""
        self.name, self.macros = name, macros
        self._found: dict[tuple[str, int], Any] = {}

    def __call__(self, function: str, blocks: int, threads: int, *arguments: Any, shared: int = 0) -> None:
        """Launch a kernel on `blocks`, none of which is nothing, with `shared` bytes of dynamic shared memory each."""
        if not blocks:
            return
        found = self._found.get((function, shared))
        if found is None:
            found = self._found[function, shared] = kernel(self.name, function, self.macros, shared)
        found((blocks,), (threads,), arguments, shared_mem=shared)
