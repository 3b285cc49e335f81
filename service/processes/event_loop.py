"""The event loop of a process of the service: how it starts, which signals end it, and how it ends in time."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
import uvloop

from service.base import threads

STOP_S = 20  # seconds from the stop signal to a forced end; Docker and Kubernetes kill after 10 to 30 s
ORPHAN_S = 3  # further seconds before a process that has a parent ends itself: the parent kills it first and says which
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
CHILD_STOP = signal.SIGUSR1  # ends a process of which a parent decides when it ends
CHILD_LEAVE = signal.SIGRTMIN  # ends a front that is in the engine's process, which goes on

_log = structlog.get_logger(__name__)


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run `main` and return its exit status.

    If a part still hangs then, end the process, because Python would wait for its thread.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        status = runner.run(main)
    if left := threads.left():
        _log.error("the process ends without parts that hang", parts=left)
        sys.stdout.flush()
        os._exit(status)
    return status


def on_stop(stop: Callable[[], None], *, by_parent: bool = False) -> Callable[[], None]:
    """Call `stop` at each stop signal. Returns a function that parts call when they have failed.

    From the first call on, the process ends after `STOP_S` even if a thread hangs: a C thread, which does not need the
    GIL, then writes the stack of each thread to stderr, and the exit status is 1.

    Args:
        stop: asks the parts to stop; may be called again.
        by_parent: a parent decides when this process ends, by `CHILD_STOP`; it ends itself if the parent is gone.
    """
    is_stopping = False

    def ending() -> None:
        nonlocal is_stopping
        if not is_stopping:
            faulthandler.dump_traceback_later(STOP_S + ORPHAN_S if by_parent else STOP_S, exit=True)
        is_stopping = True
        stop()

    loop = asyncio.get_running_loop()
    for number in [CHILD_STOP] if by_parent else STOP_SIGNALS:
        loop.add_signal_handler(number, ending)
    return ending
