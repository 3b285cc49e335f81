"""`Stages`: progress of the work that must be done before the service is ready."""

from __future__ import annotations

import threading
from typing import NamedTuple

MODELS = "models"
# Stage -> its work, in order. All but the last are needed for any answer.
STAGES = {
    "kernels": "compiling, or loading, the kernels that read ratings",
    "rating log": "reading the rating log",
    "stream": "reading from Redis what the rating log does not have yet",
    MODELS: "preparing the models",
}


class Readiness(NamedTuple):
    """Whether the service is ready; if not, the work it waits for and the share that is done (0 to 1)."""

    ready: bool
    reason: str | None
    fraction: float


class Stages:
    """Progress of the stages of a start, and obstacles that come and go later. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = dict.fromkeys(STAGES, 0.0)
        self._notes: dict[str, str] = {}
        self._obstacles: dict[str, str] = {}

    def report(self, stage: str, fraction: float = 1.0, note: str | None = None) -> None:
        """Set the fraction of `stage` that is done; it never decreases. `note`: a sentence about the present work."""
        with self._lock:
            self._done[stage] = max(self._done[stage], min(fraction, 1.0))
            if note is not None:
                self._notes[stage] = note

    def is_done(self, stage: str) -> bool:
        """Whether `stage` is done."""
        with self._lock:
            return self._done[stage] >= 1.0

    def obstruct(self, who: str, reason: str) -> None:
        """Make the service not ready until `clear`: part `who` cannot work; `reason` is a sentence that names it.

        Without `MODELS` it can still answer.
        """
        with self._lock:
            self._obstacles[who] = reason

    def clear(self, who: str) -> None:
        """Remove the obstacle of part `who`."""
        with self._lock:
            self._obstacles.pop(who, None)

    @property
    def readiness(self) -> Readiness:
        """Ready when every stage is done and nothing is in the way."""
        return self._readiness(needs_models=True)

    @property
    def can_answer(self) -> Readiness:
        """Ready when all but the models is done and works: until they are live, lists are of popular items."""
        return self._readiness(needs_models=False)

    def _readiness(self, *, needs_models: bool) -> Readiness:
        with self._lock:
            fraction = sum(self._done.values()) / len(self._done)
            for who, reason in self._obstacles.items():
                if needs_models or who != MODELS:
                    return Readiness(False, reason, fraction)
            for stage, done in self._done.items():
                if done < 1.0 and (needs_models or stage != MODELS):
                    note = self._notes.get(stage) or f"{STAGES[stage]}: {done:.0%} done"
                    return Readiness(False, note, fraction)
            return Readiness(True, None, 1.0)
