"""CUDA kernels: the sources in this folder, compiled at run time for the current device."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib
import importlib.resources
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gpu.base.errors import BackendUnavailable

COMMON = "common.cuh"
PARTS = {
    "als": (
        "als_records.cuh",
        "als_tiles.cuh",
        "als_mma.cuh",
        "als_work.cuh",
        "als_staging.cuh",
        "als_sums.cuh",
        "als_solver.cuh",
        "als_short.cuh",
    ),
    "als_wide": (
        "als_records.cuh",
        "als_wide_sizes.cuh",
        "als_mma.cuh",
        "als_work.cuh",
        "als_wgmma.cuh",
        "als_wide_feed.cuh",
        "als_wide_solver.cuh",
    ),
    "cooccurrence": ("evidence.cuh",),
    "descent_neighbors": ("splitmix.cuh",),
    "descent_sums": ("blocks.cuh",),
    "descent_tiles": ("strides.cuh",),
    "hamming": ("splitmix.cuh", "lsh_bits.cuh", "ranks.cuh"),
    "lsh": ("splitmix.cuh", "lsh_bits.cuh", "lsh_phi.cuh"),
    "rating_table": ("rows.cuh", "blocks.cuh"),
    "refit_items": ("evidence.cuh", "rows.cuh", "blocks.cuh", "splitmix.cuh", "draws.cuh", "ridge.cuh"),
    "refit_users": ("evidence.cuh", "rows.cuh", "blocks.cuh", "splitmix.cuh", "draws.cuh", "ridge.cuh"),
    "sgd": ("strides.cuh",),
    "signatures": ("evidence.cuh", "splitmix.cuh", "lsh_bits.cuh", "lsh_phi.cuh", "ranks.cuh", "blocks.cuh"),
    "similarity": ("splitmix.cuh", "lsh_bits.cuh", "ranks.cuh"),
    "topn": ("evidence.cuh", "topn_items.cuh"),
    "topn_scan": ("evidence.cuh", "topn_items.cuh"),
}
OPTIONS = ("-std=c++17",)
LOCK_FILE = "nearfield.lock"
Wanted = tuple[str, dict[str, int], str | None]  # the arguments of `module`

_allowed: dict[tuple[Any, str], int] = {}  # by kernel: dynamic shared memory that its blocks may have, in bytes
_allowing = threading.Lock()


def source(name: str) -> str:
    """The text of `name`.cu with its included files in front, since CuPy's cache does not notice their changes."""
    here = importlib.resources.files(__name__)
    return "\n".join((here / file).read_text("utf-8") for file in (COMMON, *PARTS.get(name, ()), f"{name}.cu"))


def options(defines: dict[str, int]) -> tuple[str, ...]:
    """Options of the compiler."""
    return (*OPTIONS, *(f"-D{define}={value}" for define, value in sorted(defines.items())))


def module(name: str, defines: dict[str, int], architecture: str | None = None) -> Any:
    """`name`.cu compiled with these macros for the current device; compiled and loaded once.

    Args:
        architecture: the only one with the instructions of this file, such as "sm_90a", which CuPy does not support.

    Raises:
        BackendUnavailable: the compiler failed; the message has file, macros and the first error.
    """
    cupy = importlib.import_module("cupy")

    return _module(name, options(defines), cupy.cuda.Device().id, architecture)


def compile_once(wanted: Iterable[Wanted]) -> None:
    """Compile these modules, at the same time, in the first of all processes that ask; the others wait, and load them.

    Do not call it in a process that answers requests: it would wait for a process that is stopped.
    """
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):  # a folder that is not writable has nothing for others either
            lock = opened.enter_context((_folder() / LOCK_FILE).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        list(opened.enter_context(ThreadPoolExecutor()).map(lambda one: module(*one), wanted))


@functools.cache
def _module(name: str, given: tuple[str, ...], device: int, architecture: str | None) -> Any:
    cupy = importlib.import_module("cupy")

    del device  # a part of the key
    try:
        if architecture:
            return cupy.RawModule(path=_binary(source(name), given, architecture))
        loaded = cupy.RawModule(code=source(name), options=given, backend="nvrtc")
        loaded.compile()
    except (cupy.cuda.compiler.CompileException, cupy.cuda.nvrtc.NVRTCError) as error:
        lines = str(error).splitlines()
        first = next((line for line in lines if "error" in line), lines[0] if lines else "no message")
        raise BackendUnavailable(f"Invalid kernels {name}.cu with {' '.join(given)}: {first}; use host") from error
    return loaded


def _binary(text: str, given: tuple[str, ...], architecture: str) -> str:
    """Path of the machine code of this source; compiled once for all processes."""
    cupy = importlib.import_module("cupy")

    given = (*given, f"-arch={architecture}", "-ftz=true")
    key = repr((text, given, cupy.cuda.nvrtc.getVersion())).encode()
    path = _folder() / f"nearfield_{hashlib.sha256(key).hexdigest()}.cubin"
    if not path.is_file():
        nvrtc = cupy.cuda.nvrtc
        program = nvrtc.createProgram(text, "kernels.cu", (), ())
        try:
            nvrtc.compileProgram(program, given)
            binary: bytes = nvrtc.getCUBIN(program)
        except nvrtc.NVRTCError as error:
            log = nvrtc.getProgramLog(program)
            raise cupy.cuda.compiler.CompileException(log, text, "kernels.cu", given, "nvrtc") from error
        finally:
            nvrtc.destroyProgram(program)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(binary)
        Path(file.name).replace(path)  # atomic, even if another process writes the same file
    return str(path)


@functools.cache
def _folder() -> Path:
    """CuPy's folder of kernels, or a folder of this process if CuPy's is not writable."""
    folder = Path.home() / ".cupy" / "kernel_cache"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp())
    return folder


def kernel(
    name: str, function: str, defines: dict[str, int], shared_bytes: int = 0, architecture: str | None = None
) -> Any:
    """One kernel of a module, allowed `shared_bytes` of dynamic shared memory a block."""
    return _kernel(module(name, defines, architecture), function, shared_bytes)


@functools.cache
def _kernel(loaded: Any, function: str, shared_bytes: int) -> Any:
    run = loaded.get_function(function)
    with _allowing:  # CUDA has one limit per kernel for all callers: never lower it
        if shared_bytes > _allowed.get((loaded, function), 0):
            run.max_dynamic_shared_size_bytes = _allowed[loaded, function] = shared_bytes
    return run
