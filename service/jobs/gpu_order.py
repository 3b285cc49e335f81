"""Which GPUs the processes of jobs use on a machine whose service answers from GPUs: those come last.

The service answers from the first GPUs that it sees. Trainer and ranks see the same GPUs in another order, so they take
all others before.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from service.settings.environment import without_secrets
from service.settings.settings import Settings

VISIBLE = "CUDA_VISIBLE_DEVICES"  # the GPUs that a process sees, and their order
DRIVER = Path("/proc/driver/nvidia/gpus")  # an entry for each GPU of the machine
COUNT = "from gpu.base.device import memory_of_devices; print(len(memory_of_devices()))"
COUNT_S = 60.0  # seconds


def serving_last(settings: Settings) -> tuple[str, ...]:
    """The GPUs of this process in the words of `CUDA_VISIBLE_DEVICES`, the first `ranking_gpus` last.

    () if there are not several, or if `settings` let models answer from the host.
    """
    if settings.backend == "host" or not DRIVER.is_dir() or len(list(DRIVER.iterdir())) < 2:
        return ()
    n_gpus, visible = n_gpus_here(), inherited().get(VISIBLE)
    names = [str(number) for number in range(n_gpus)] if visible is None else visible.split(",")[:n_gpus]
    n_answering = settings.ranking_gpus
    return (*names[n_answering:], *names[:n_answering]) if n_gpus > 1 else ()


def environment(gpus: tuple[str, ...]) -> dict[str, str]:
    """The environment of a process that sees `gpus`; without any, it sees those that this process sees."""
    return inherited() | ({VISIBLE: ",".join(gpus)} if gpus else {})


def inherited(without: Collection[str] = ()) -> dict[str, str]:
    """The environment of this process, without secrets and some other variables."""
    return {name: value for name, value in without_secrets(os.environ).items() if name not in without}


@functools.cache
def n_gpus_here() -> int:
    """GPUs that work for us, counted by another process: CUDA would stay in the memory of this one.

    0 if they cannot be counted; the trainer then says why.
    """
    command = [sys.executable, "-c", COUNT]
    with contextlib.suppress(subprocess.SubprocessError):
        return int(subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=COUNT_S, env=inherited()))  # noqa: S603
    return 0
