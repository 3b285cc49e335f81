"""Threads of the service, and who may use how many: kernels all, from one thread at a time, linear algebra one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import structlog

_log = structlog.get_logger(__name__)


def configure() -> None:
    """Choose Numba's threading layer and let its idle threads sleep; before the first kernel of the process.

    OpenMP is the layer that bears calls from several threads; left alone its threads would spin after each kernel and
    take the processor from the event loop. Processes started from here inherit both. What is set already stays.
    """
    os.environ.setdefault("NUMBA_THREADING_LAYER", "omp")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def limit_blas() -> None:
    """One thread for NumPy's matrix products: they are small, and the kernels around them are parallel already."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 (not every command needs it)

    threadpool_limits(limits=1, user_api="blas")


class PartThread(threading.Thread):
    """A thread without which the service must not go on: what ends it, other than its own return, is told.

    Every such thread of the service is one of these (tests/test_project.py): none can die in silence.
    """

    def __init__(self, name: str, run: Callable[[], None], on_failure: Callable[[BaseException], None]) -> None:
        """Prepare; `start` starts it.

        Args:
            name: for logs and debuggers.
            run: what it does.
            on_failure: called on this thread with what has ended `run`; it should end the service.
        """
        super().__init__(name=name, daemon=True)
        self._run_part, self._on_failure = run, on_failure

    def run(self) -> None:
        """Called by `start`."""
        try:
            self._run_part()
        except BaseException as error:
            _log.critical("a part of the service failed", part=self.name, exc_info=error)
            self._on_failure(error)


def left() -> list[str]:
    """Names of the parts whose threads have not ended."""
    return [thread.name for thread in threading.enumerate() if isinstance(thread, PartThread)]


def helper(name: str, run: Callable[[], None]) -> threading.Thread:
    """A running thread whose end its owner notices by itself."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def unheard(error: BaseException) -> None:
    """What a part does with a failure where nobody listens, as in a test of it alone: the log has it already."""
