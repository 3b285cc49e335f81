"""`Retraining`: trainings that nobody asked for, every so many ratings or hours."""

from __future__ import annotations

import contextlib
import time
from typing import NamedTuple

from service import live, snapshot
from service.errors import CorruptSnapshot, JobRunning, UnknownVersion
from service.events import ZERO, StreamId
from service.jobs import Jobs
from service.rating_log import RatingLog
from service.settings import Settings

CHECK_EVERY_S = 5.0
HOUR_S = 3600.0


class _Last(NamedTuple):
    """The last training of a name: how far it read, when it was, with which parameters."""

    watermark: StreamId
    time_s: float
    params: dict[str, object]


class Retraining:
    """Submits a training of each live model (of the first default one, if none is live) when it is due.

    It counts from the newest snapshot of the name, promoted or not, and from its own last attempt, so that a model
    that is not promoted, or fails, is not trained over and over.
    """

    def __init__(self, settings: Settings, log: RatingLog, jobs: Jobs) -> None:
        self._settings, self._log, self._jobs = settings, log, jobs
        self._attempts: dict[str, tuple[StreamId, float]] = {}
        self._checked_s = 0.0
        self._since_s = time.time()

    def submit_due(self) -> None:
        """Submit one training if one is due; cheap if called often."""
        is_off = not (self._settings.retrain_every_ratings or self._settings.retrain_every_hours)
        if is_off or time.monotonic() - self._checked_s < CHECK_EVERY_S:
            return
        self._checked_s = time.monotonic()
        for name in live.read(self._settings.data) or self._settings.default_models[:1]:
            last = self._last(name)
            if self._is_due(last):
                attempt = self._log.last_id(), time.time()
                with contextlib.suppress(JobRunning):
                    self._jobs.submit_training(name, last.params)
                    self._attempts[name] = attempt
                return

    def _last(self, name: str) -> _Last:
        watermark, time_s = self._attempts.get(name, (ZERO, self._since_s))
        params: dict[str, object] = {}
        folder = self._settings.data / "snapshots"
        for version in snapshot.versions(folder, name)[:1]:
            try:
                manifest = snapshot.read_manifest(folder, version)
            except (CorruptSnapshot, UnknownVersion):
                continue
            params = manifest.parameters
            watermark = max(watermark, StreamId.parse(manifest.watermark))
            time_s = max(time_s if name in self._attempts else 0.0, snapshot.time_of(version))
        return _Last(watermark, time_s, params)

    def _is_due(self, last: _Last) -> bool:
        if self._log.last_id() <= last.watermark:
            return False
        hours = self._settings.retrain_every_hours
        if hours and time.time() - last.time_s >= hours * HOUR_S:
            return True
        every = self._settings.retrain_every_ratings
        return bool(every) and self._n_ratings_after(last.watermark) >= every

    def _n_ratings_after(self, watermark: StreamId) -> int:
        return sum(batch.num_rows for batch in self._log.read(watermark, columns=["index"]))
