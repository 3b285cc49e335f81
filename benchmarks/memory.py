"""How much memory something takes: by how much this process grows (Linux, GNU C library), or a device fills."""

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
RESET_PEAK = "5"  # what `clear_refs` takes for it


def peak_mib(work: Callable[[], Any], backend: gpu.Backend) -> float:
    """MiB of memory, of the process or of the device, at its highest during `work` over that before."""
    if backend.name == "device":
        taken: int = importlib.import_module("gpu.device.memory").taken_by(work)
        return taken / MIB
    ctypes.CDLL(None).malloc_trim(0)  # memory that was freed but kept would hide what is taken out of it
    (PROCESS / "clear_refs").write_text(RESET_PEAK, "ascii")
    before = _status("VmRSS")
    kept = work()
    growth = (_status("VmHWM") - before) / KIB_A_MIB
    del kept
    return growth


def _status(name: str) -> int:
    for line in (PROCESS / "status").read_text("ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise OSError(f"Invalid status of the process: expected a line of {name}, got none")
