"""Compiles one body twice: as a kernel of one thread, and as a kernel of all threads."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., None])


def serial_and_parallel(body: Kernel, **options: Any) -> tuple[Kernel, Kernel]:
    """Two kernels with the same results: one on the calling thread, and one on all threads.

    The serial kernel wakes no thread. The parallel one pays that, some tens of microseconds, and shares the work.

    Args:
        body: a function `_NAME` with loops over `prange`, which a serial compilation takes for `range`. No iteration
            may read what another one writes. Numba has two limits. It drops a write to an array of a tuple in the loop
            itself, so a kernel that the loop calls must do it. And the loop cannot read a tuple of tuples.
        options: options of `njit` besides `cache` and `nogil`.

    Returns:
        The serial kernel, NAME, and the parallel one, NAME_parallel. Logs and cache files show these names.
    """
    name = body.__name__.removeprefix("_")
    serial = njit(cache=True, nogil=True, **options)(_named(body, name))
    return serial, njit(cache=True, nogil=True, parallel=True, **options)(_named(body, f"{name}_parallel"))


def _named(body: Callable[..., None], name: str) -> Any:
    """A copy of `body` with this name.

    Numba's cache finds a kernel by name, file and line, and ignores the options. Under one name, the serial kernel
    would load the machine code of the parallel one.
    """
    assert isinstance(body, FunctionType)  # noqa: S101 - this narrows the type
    copy = FunctionType(body.__code__, body.__globals__, name, body.__defaults__, body.__closure__)
    copy.__qualname__, copy.__annotations__ = name, body.__annotations__
    return copy
