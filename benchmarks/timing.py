"""Times and memory of calls: one call, several in turns, medians, and the peak of memory."""

from __future__ import annotations

import ctypes
import importlib
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import gpu

NAN = float("nan")
MIB = 2**20
Result = TypeVar("Result")
Clock = Callable[[], float]


def timed(work: Callable[[], Result], clock: Clock = time.perf_counter) -> tuple[Result, float]:
    """(what `work` returns, its seconds by `clock`)."""
    began = clock()
    result = work()
    return result, clock() - began


def ms_of(work: Callable[[], Any], clock: Clock = time.perf_counter) -> float:
    """Milliseconds of a call."""
    return 1e3 * timed(work, clock)[1]


def median_ms(work: Callable[[], Any], rounds: int, warm_up: int = 0, clock: Clock = time.perf_counter) -> float:
    """Median milliseconds of `rounds` calls, after `warm_up` others."""
    return statistics.median([ms_of(work, clock) for _ in range(warm_up + rounds)][warm_up:])


def in_turns(calls: Mapping[str, Callable[[], Result]], rounds: int) -> dict[str, list[Result]]:
    """What each call returns in each round. Calls take turns, so that noise of the machine affects all of them."""
    results: dict[str, list[Result]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            results[name].append(call())
    return results


def median_of(rows: Iterable[Any], *names: str) -> list[float]:
    """The median over `rows` of each attribute."""
    listed = list(rows)
    return [statistics.median(getattr(row, name) for row in listed) for name in names]


def peak_mib(work: Callable[[], Any], backend: gpu.Backend) -> float:
    """MiB by which `work` raises the peak memory of the device, or of the process (Linux with the GNU C library)."""
    if backend.name == "device":
        peak_bytes: int = importlib.import_module("gpu.cuda.memory").taken_by(work)
        return peak_bytes / MIB
    process = Path("/proc/self")

    def kib(name: str) -> int:
        lines = (process / "status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name))

    ctypes.CDLL(None).malloc_trim(0)  # reuse of freed memory that the allocator keeps would not count
    (process / "clear_refs").write_text("5", "ascii")  # resets the peak
    before = kib("VmRSS")
    result = work()
    growth = (kib("VmHWM") - before) / 1024
    del result
    return growth
