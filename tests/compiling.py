"""Tells on the terminal which kernels a run of tests compiles, so that nobody takes the first run for one that hangs.

Numba keeps what it compiled in `__pycache__`, or in `NUMBA_CACHE_DIR`: the next run says nothing.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

SECONDS_PER_KERNEL = 2  # of one core, with the kernels that it calls; service/engine/compilation.py has the measurement


def announce(write: Callable[[str], None]) -> None:
    """Write how many kernels the cache lacks, and from now on each that this process compiles, with its seconds."""
    from numba.core import event  # noqa: PLC0415 - takes a second, which tests without kernels do not need

    from gpu.base.host import compilation  # noqa: PLC0415
    from gpu.base.host.declared import Use  # noqa: PLC0415

    kernels = set(compilation.called_for(set(Use)))
    missing = compilation.uncached(kernels)
    if missing:
        write(
            f"{len(missing)} of {len(kernels)} kernels are not compiled for this processor. Tests compile those they"
            f" call, once, about {SECONDS_PER_KERNEL} s each; `make kernels` compiles all.\n"
        )

    class Listener(event.Listener):
        """Writes a line for each kernel that is compiled for itself, not for one that calls it."""

        def __init__(self) -> None:
            self._began_s = threading.local()

        def on_start(self, event: Any) -> None:
            if not self._stack and _is_kept(event):
                write(f"\ncompiling {_name_of(event)} …")
            self._stack.append(time.monotonic())

        def on_end(self, event: Any) -> None:
            seconds = time.monotonic() - self._stack.pop()
            if not self._stack and _is_kept(event):
                write(f" {seconds:.1f} s\n")

        @property
        def _stack(self) -> list[float]:
            """When the compilations of this thread began that have not ended."""
            return self._began_s.__dict__.setdefault("stack", [])

    event.register("numba:compile", Listener())


def _is_kept(event: Any) -> bool:
    """Whether a cache folder keeps it: functions that tests themselves compile are compiled in each run."""
    return _name_of(event).startswith("gpu.")


def _name_of(event: Any) -> str:
    function = event.data["dispatcher"].py_func
    return f"{function.__module__}.{function.__name__}"


def to_terminal(config: pytest.Config) -> Callable[[str], None] | None:
    """What writes a text to the terminal from any thread, whatever is captured; None in a process of xdist."""
    capturing = config.pluginmanager.get_plugin("capturemanager")
    if hasattr(config, "workerinput") or capturing is None:
        return None
    with capturing.global_and_fixture_disabled():
        terminal = os.dup(sys.stdout.fileno())

    def write(text: str) -> None:
        os.write(terminal, text.encode())

    return write
