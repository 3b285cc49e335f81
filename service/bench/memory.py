"""By how much this process grows while something runs; Linux with the GNU C library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
KIB_A_MIB = 1024
PROCESS = Path("/proc/self")
RESET_PEAK = "5"  # what `clear_refs` takes for it


def peak_mib(work: Callable[[], Result]) -> tuple[Result, float]:
    """(what `work` returns, MiB of resident memory at its highest over that before)."""
    ctypes.CDLL(None).malloc_trim(0)  # memory that was freed but kept would hide what is taken out of it
    (PROCESS / "clear_refs").write_text(RESET_PEAK, "ascii")
    before = _status("VmRSS")
    result = work()
    return result, (_status("VmHWM") - before) / KIB_A_MIB


def _status(name: str) -> int:
    for line in (PROCESS / "status").read_text("ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise OSError(f"Invalid status of the process: expected a line of {name}, got none")
