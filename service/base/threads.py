"""Threads of the service: essential ones, whose failure ends the service, and helpers."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

_log = structlog.get_logger(__name__)


class PartThread(threading.Thread):
    """A thread without which the service must not go on: an exception that ends it is logged and reported.

    All essential threads use this class (tests/test_project.py checks it), so that none can die silently.
    """

    def __init__(self, name: str, run: Callable[[], None], on_failure: Callable[[BaseException], None]) -> None:
        """Prepare; `start` starts it.

        Args:
            name: name in logs and debuggers.
            run: the work of the thread.
            on_failure: called on this thread with the exception that ended `run`; it should end the service.
        """
        super().__init__(name=name, daemon=True)
        self._run_part, self._on_failure = run, on_failure

    def run(self) -> None:
        """Called by `start`."""
        try:
            self._run_part()
        except BaseException as error:
            try:
                _log.critical("a part of the service failed", part=self.name, exc_info=error)
            finally:  # also if it cannot be logged
                self._on_failure(error)


def left() -> list[str]:
    """Names of the parts whose threads have not ended."""
    return [thread.name for thread in threading.enumerate() if isinstance(thread, PartThread)]


def helper(name: str, run: Callable[[], None]) -> threading.Thread:
    """Start a thread whose end the caller watches."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def unheard(error: BaseException) -> None:
    """Ignore a failure, which is already in the log; for a part that is used alone, as in tests."""
