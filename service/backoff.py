"""`Backoff`: what a thread does while something that it needs is away: wait, longer each time, and say it once."""

from __future__ import annotations

import threading

import structlog

from service.errors import ServiceError

FIRST_S = 0.1
LONGEST_S = 5.0

_log = structlog.get_logger(__name__)


class Backoff:
    """For one thread: one log line when it fails, or fails for another reason, and one when it works again."""

    def __init__(self, who: str, stopping: threading.Event) -> None:
        """Args: `who` works or fails, in the log; `stopping` ends a wait."""
        self._who, self._stopping = who, stopping
        self._wait_s = FIRST_S
        self._reason: str | None = None

    def failed(self, error: Exception) -> None:
        """It did not work: say so, if that is new, and wait before the next attempt."""
        reason = f"{type(error).__name__}: {error}"
        if reason != self._reason:
            unexpected = None if isinstance(error, ServiceError | OSError) else error
            _log.warning(f"{self._who} cannot work and tries again", error=reason, exc_info=unexpected)
        self._reason = reason
        self._stopping.wait(self._wait_s)
        self._wait_s = min(2 * self._wait_s, LONGEST_S)

    def worked(self) -> None:
        """It did, this time."""
        if self._reason is not None:
            _log.info(f"{self._who} works again")
        self._reason, self._wait_s = None, FIRST_S
