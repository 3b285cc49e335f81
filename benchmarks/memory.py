"""Peak memory of a call, in the process (Linux with the GNU C library) or on a device."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpu

MIB = 2**20
KIB_A_MIB = 1024
PROCESS = Path("/proc/self")
RESET_PEAK = "5"  # the value of `clear_refs` that resets the peak


def peak_mib(work: Callable[[], Any], backend: gpu.Backend) -> float:
    """MiB by which `work` raises the peak memory of the process, or of the device, above the memory before."""
    if backend.name == "device":
        peak_bytes: int = importlib.import_module("gpu.device.memory").taken_by(work)
        return peak_bytes / MIB
    ctypes.CDLL(None).malloc_trim(0)  # reuse of freed memory that the allocator keeps would not count
    (PROCESS / "clear_refs").write_text(RESET_PEAK, "ascii")
    before = _status("VmRSS")
    result = work()
    growth = (_status("VmHWM") - before) / KIB_A_MIB
    del result
    return growth


def _status(name: str) -> int:
    for line in (PROCESS / "status").read_text("ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise OSError(f"Invalid status of the process: expected a line of {name}, got none")
