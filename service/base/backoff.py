"""`Backoff`: lets a thread retry with growing pauses, and logs each new failure once."""

from __future__ import annotations

import threading

import structlog

from service.base.errors import ServiceError

FIRST_S = 0.1  # seconds of the first pause
LONGEST_S = 1.0  # seconds of the longest pause; `OTHERS_S` in `verification` is longer

_log = structlog.get_logger(__name__)


class Backoff:
    """Retries of one thread. Logs one line when it fails or fails for another reason, and one when it works again."""

    def __init__(self, who: str, stopping: threading.Event) -> None:
        """`who` is the name in the log; `stopping` ends a pause."""
        self._who, self._stopping = who, stopping
        self._wait_s = FIRST_S
        self._reason: str | None = None

    def failed(self, error: Exception) -> None:
        """Log a failure if its reason is new, and wait before the next attempt."""
        reason = f"{type(error).__name__}: {error}"
        if reason != self._reason:
            unexpected = None if isinstance(error, ServiceError | OSError) else error
            _log.warning(f"{self._who} cannot work and tries again", error=reason, exc_info=unexpected)
        self._reason = reason
        self._stopping.wait(self._wait_s)
        self._wait_s = min(2 * self._wait_s, LONGEST_S)

    def worked(self) -> None:
        """Note a success, which resets the pause."""
        if self._reason is not None:
            _log.info(f"{self._who} works again")
        self._reason, self._wait_s = None, FIRST_S
