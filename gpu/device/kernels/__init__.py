"""CUDA kernels: source text beside this file, compiled at run time for the device at hand."""

from __future__ import annotations

import functools
import importlib
import importlib.resources
import threading
from typing import Any

from gpu.errors import BackendUnavailable

COMMON = "common.cuh"
PARTS = {
    "als": ("als_tiles.cuh", "als_mma.cuh", "als_staging.cuh", "als_sums.cuh", "als_solver.cuh", "als_short.cuh"),
    "hamming": ("splitmix.cuh", "lsh_bits.cuh", "ranks.cuh"),
    "lsh": ("splitmix.cuh", "lsh_bits.cuh", "lsh_phi.cuh"),
    "near": ("splitmix.cuh",),
    "newcomers": ("rows.cuh", "blocks.cuh", "splitmix.cuh", "draws.cuh", "ridge.cuh"),
    "online": ("rows.cuh", "blocks.cuh", "splitmix.cuh", "draws.cuh", "ridge.cuh"),
    "sgd": ("strides.cuh",),
    "signatures": ("splitmix.cuh", "lsh_bits.cuh", "lsh_phi.cuh", "ranks.cuh", "blocks.cuh"),
    "similarity": ("splitmix.cuh", "lsh_bits.cuh", "ranks.cuh"),
    "table": ("rows.cuh", "blocks.cuh"),
    "tiles": ("strides.cuh",),
    "topn": ("topn_items.cuh",),
    "topn_scan": ("topn_items.cuh",),
}
OPTIONS = ("-std=c++17",)

_allowed: dict[tuple[Any, str], int] = {}  # by kernel: dynamic shared memory that its blocks may have, in bytes
_allowing = threading.Lock()


def source(name: str) -> str:
    """The text of `name`.cu after what all share and its parts: CuPy's cache does not see an included file change."""
    here = importlib.resources.files(__name__)
    return "\n".join((here / file).read_text("utf-8") for file in (COMMON, *PARTS.get(name, ()), f"{name}.cu"))


def options(defines: dict[str, int]) -> tuple[str, ...]:
    """What the compiler is told beside the source."""
    return (*OPTIONS, *(f"-D{define}={value}" for define, value in sorted(defines.items())))


def module(name: str, defines: dict[str, int]) -> Any:
    """`name`.cu compiled with these macros for the current device; compiled and loaded once.

    Raises:
        BackendUnavailable: the compiler refused; file, macros and its first error are said.
    """
    cupy = importlib.import_module("cupy")

    return _module(name, options(defines), cupy.cuda.Device().id)


@functools.cache
def _module(name: str, given: tuple[str, ...], device: int) -> Any:
    cupy = importlib.import_module("cupy")

    del device  # a part of the key
    loaded = cupy.RawModule(code=source(name), options=given, backend="nvrtc")
    try:
        loaded.compile()
    except cupy.cuda.compiler.CompileException as error:
        lines = str(error).splitlines()
        first = next((line for line in lines if "error" in line), lines[0] if lines else "no message")
        raise BackendUnavailable(f"Invalid kernels {name}.cu with {' '.join(given)}: {first}; use host") from error
    return loaded


def kernel(name: str, function: str, defines: dict[str, int], shared_bytes: int = 0) -> Any:
    """One kernel of a module, allowed `shared_bytes` of dynamic shared memory a block."""
    return _kernel(module(name, defines), function, shared_bytes)


@functools.cache
def _kernel(loaded: Any, function: str, shared_bytes: int) -> Any:
    found = loaded.get_function(function)
    with _allowing:  # CUDA keeps one limit a kernel, whoever launches it: it must not fall for those who need more
        if shared_bytes > _allowed.get((loaded, function), 0):
            found.max_dynamic_shared_size_bytes = _allowed[loaded, function] = shared_bytes
    return found
