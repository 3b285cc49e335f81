"""Threads of the service: those without which it must not go on, and helpers."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

_log = structlog.get_logger(__name__)


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
