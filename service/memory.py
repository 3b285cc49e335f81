"""Keeping the process small: the allocators of C and Arrow hold on to much that nobody uses any more."""

from __future__ import annotations

import contextlib
import ctypes
import gc

import pyarrow as pa

MAX_ARENAS = 2
GC_THRESHOLDS = 20_000, 20, 100  # Python's 700 are passed by each batch of answers: a tenth of the processor's time
_M_ARENA_MAX = -8  # from malloc.h


def limit_arenas() -> None:
    """Few arenas for all threads, Arrow's memory among them; measured on MovieLens-1M: 35 MB less of 400.

    Has to come before the threads. Does nothing where the C library is not glibc.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MAX_ARENAS)


def settle() -> None:
    """After a start that has read a long log: give free pages back, and never again look through what stays.

    The garbage collector would otherwise visit all of it, tens of milliseconds each time, while requests wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
