"""`Stages`: what must be done before the service is ready, and how far each part is."""

from __future__ import annotations

import threading
from typing import NamedTuple

STAGES = ("rating log", "kernels", "stream", "models")


class Readiness(NamedTuple):
    """Whether the service is ready; if not, what it waits for and how much is done (0 to 1)."""

    ready: bool
    reason: str | None
    fraction: float


class Stages:
    """Progress of the stages of a start, and obstacles that come and go afterwards. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = dict.fromkeys(STAGES, 0.0)
        self._obstacles: dict[str, str] = {}

    def report(self, stage: str, fraction: float = 1.0) -> None:
        """`stage` is done to this fraction; it never goes back."""
        with self._lock:
            self._done[stage] = max(self._done[stage], min(fraction, 1.0))

    def is_done(self, stage: str) -> bool:
        """Whether `stage` is behind us."""
        with self._lock:
            return self._done[stage] >= 1.0

    def obstruct(self, who: str, reason: str) -> None:
        """`who` cannot do its work; the service is not ready until `clear`."""
        with self._lock:
            self._obstacles[who] = reason

    def clear(self, who: str) -> None:
        """`who` works again."""
        with self._lock:
            self._obstacles.pop(who, None)

    @property
    def readiness(self) -> Readiness:
        """Ready when every stage is done and nothing is in the way."""
        with self._lock:
            fraction = sum(self._done.values()) / len(self._done)
            for who, reason in self._obstacles.items():
                return Readiness(False, f"{who}: {reason}", fraction)
            for stage, done in self._done.items():
                if done < 1.0:
                    return Readiness(False, f"{stage}: {done:.0%} done", fraction)
            return Readiness(True, None, 1.0)
