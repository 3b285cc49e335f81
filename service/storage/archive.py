"""`Archive`: what the engine's process sees of what writes the rating log, which is never in that process."""

from __future__ import annotations

import threading
import time
from typing import Protocol

SILENT_S = 10.0  # seconds without a report after which no rating is acknowledged; a restart takes one


class Archive(Protocol):
    """The state of what writes the log: the archiver's process, or what follows a store.

    Attributes:
        obstacle: why the log cannot be written at present, or None.
        damage: why the log is not merged and the stream not trimmed, or None.
        n_pending: ratings that were read and are not committed.
        lag_s: seconds for which the oldest of them waits.
    """

    @property
    def obstacle(self) -> str | None:
        """See the class."""

    @property
    def damage(self) -> str | None:
        """See the class."""

    @property
    def n_pending(self) -> int:
        """See the class."""

    @property
    def lag_s(self) -> float:
        """See the class."""

    def wait(self, stopping: threading.Event) -> None:
        """Return when the log can be read, or when `stopping` is set."""


class ReportedArchive:
    """The state of the archiver, see `service.storage.archiver.Archiver`, as its process has last reported it.

    Attributes:
        damage: why the archiver does not merge or trim, or None.
        n_pending: ratings that the archiver has read and not committed.
    """

    def __init__(self) -> None:
        self.damage: str | None = None
        self.n_pending = 0
        self._obstacle: str | None = None
        self._lag_s = 0.0
        self._heard_s = time.monotonic()

    def wait(self, stopping: threading.Event) -> None:
        """Return when the log can be read, or when `stopping` is set: at once."""

    def take(self, obstacle: str | None, damage: str | None, lag_s: float, n_pending: int) -> None:
        """Take a report."""
        self._obstacle, self.damage, self._lag_s, self.n_pending = obstacle, damage, lag_s, n_pending
        self._heard_s = time.monotonic()

    @property
    def obstacle(self) -> str | None:
        """Why the log cannot be written at present, or None."""
        return f"the archiver has been silent for {SILENT_S:g} s" if self._silent_s > SILENT_S else self._obstacle

    @property
    def lag_s(self) -> float:
        """Seconds: as reported, or the time since the last report if that is longer than usual."""
        return max(self._lag_s, self._silent_s if self._silent_s > SILENT_S else 0.0)

    @property
    def _silent_s(self) -> float:
        return time.monotonic() - self._heard_s
