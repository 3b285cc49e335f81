"""Compiles the kernels of this package, and reports each compilation as it ends."""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from numba.core import config, event
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

import gpu
from gpu.base.host import declared
from gpu.base.host.declared import Use
from gpu.base.host.kernel_cache import KernelCache

PREFIX = gpu.__name__ + "."


def load() -> None:
    """Import all kernels, and what Numba imports at the first call of one: a fifth of SciPy among it.

    Call it before threads start: two threads that import modules of one package can wait for each other, which Python
    ends with an error in one of them. Compiles nothing and starts no thread, so the process may fork afterwards.
    """
    kernels()
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    openmp_obstacle()  # with one, the first parallel kernel takes another layer


def threading_layer() -> str:
    """The layer that Numba is asked to run parallel kernels on, such as `omp`."""
    return str(config.THREADING_LAYER)  # type: ignore[attr-defined] # Numba sets it from the environment


def openmp_obstacle() -> str | None:
    """Why Numba cannot run parallel kernels on OpenMP's threads; None if it can. Starts no thread."""
    try:
        importlib.import_module("numba.np.ufunc.omppool")
    except ImportError as error:
        return str(error)
    return None


@functools.cache
def kernels() -> Mapping[str, Any]:
    """Every kernel of this package by `room.module.function`, imported and compiled or not; looked for once.

    Kernels that are inlined into their callers are left out: they are never compiled separately.
    """
    by_name: dict[str, Any] = {}
    for module in pkgutil.walk_packages(gpu.__path__, PREFIX):
        if not any(part.startswith("host") for part in module.name.split(".")):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Dispatcher) and value.targetoptions.get("inline") != "always":
                by_name[_name_of(value)] = value
    return MappingProxyType({name: kernel for name, kernel in by_name.items() if name})


def called_for(uses: Collection[Use]) -> list[str]:
    """Names of the kernels that Python calls for any of these uses, sorted."""
    return sorted(name for name, kernel in kernels().items() if not declared.uses_of(kernel).isdisjoint(uses))


def compile_kernel(name: str) -> None:
    """Compile a kernel for all types with which Python calls it, or load it from the cache."""
    kernel = kernels()[name]
    for signature in declared.signatures(kernel):
        kernel.compile(signature)


def n_signatures() -> dict[str, int]:
    """Number of forms of each kernel that this process has compiled or loaded, by name."""
    return {name: len(kernel.signatures) for name, kernel in kernels().items()}


def uncached(names: set[str]) -> set[str]:
    """Those of `names` that must be compiled: neither in this process nor in a cache folder for this processor."""
    every = kernels()
    return {name for name in names if not (every[name].signatures or _cache_of(every[name]).holds_any())}


def can_save() -> bool:
    """Whether a cache folder for later processes is writable."""
    return all(_cache_of(kernel).can_save for kernel in kernels().values())


@contextlib.contextmanager
def watched(on_kernel: Callable[[str], None]) -> Iterator[None]:
    """Call `on_kernel` with the name of each kernel of this package when it has been compiled, in its thread."""
    with event.install_listener("numba:compile", _Listener(on_kernel)):
        yield


class _Listener(event.Listener):
    def __init__(self, on_kernel: Callable[[str], None]) -> None:
        self._on_kernel = on_kernel

    def on_start(self, event: Any) -> None:
        """Do nothing: only ends are reported."""

    def on_end(self, event: Any) -> None:
        name = _name_of(event.data["dispatcher"])
        if name:
            self._on_kernel(name)


def _name_of(kernel: Any) -> str:
    """`room.module.function`; empty for kernels of other packages."""
    function = kernel.py_func
    if not function.__module__.startswith(PREFIX):
        return ""
    return f"{function.__module__.removeprefix(PREFIX)}.{function.__name__}"


def _cache_of(kernel: Any) -> KernelCache:
    cache = kernel._cache
    assert isinstance(cache, KernelCache)  # noqa: S101 - what `gpu.base.host` installs; this narrows the type
    return cache
