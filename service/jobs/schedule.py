"""`Retraining`: submits trainings automatically, after a share or number of new ratings, or some hours."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import structlog

from gpu.algorithms import ALGORITHMS
from gpu.base.errors import InvalidParams
from service.jobs.errors import NoMinutesLeft
from service.jobs.jobs import Jobs
from service.jobs.training import Training
from service.settings.settings import Settings
from service.storage.errors import CorruptSnapshot, UnknownVersion
from service.storage.events import ZERO, StreamId
from service.storage.log.log_size import LogSize
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot, version_names
from service.storage.snapshots.manifest import Manifest

CHECK_EVERY_S = 5.0  # seconds between two checks
HOUR_S = 3600.0
MIN_NEW_RATINGS = 1000  # ratings; with fewer new ones `retrain_share` makes no training due

_log = structlog.get_logger(__name__)


class LastTraining(NamedTuple):
    """The last training of a model name.

    Attributes:
        watermark: the last entry that it read.
        time_s: its time in Unix seconds.
        algorithm, params: the algorithm and the hyperparameters that were requested; the next training uses them again.
        is_shadow: whether the model is a shadow; the next one is too.
        n_ratings: number of ratings it was trained on; None if there was no training.
    """

    watermark: StreamId
    time_s: float
    algorithm: str
    params: dict[str, object]
    is_shadow: bool
    n_ratings: int | None

    def again(self, name: str) -> Training:
        """The next training of this model, whose `name` it is. Raises what `Training.of` raises."""
        return Training.of(self.algorithm, self.params, name, shadow=self.is_shadow)


class Retraining:
    """Submits a training of a model when it is due.

    It counts from the newest snapshot of the name, promoted or not, or from its own last attempt, so that a model that
    fails or is not promoted is not trained over and over.
    """

    def __init__(self, settings: Settings, log: RatingLog, jobs: Jobs) -> None:
        self._settings, self._log, self._jobs = settings, log, jobs
        self._attempts: dict[str, tuple[StreamId, float]] = {}
        self._sizes = defaultdict[str, LogSize](lambda: LogSize(log))  # by name; each reads a row of the log only once
        self._trained_on: dict[str, int] = {}  # number of training ratings, for versions whose manifest lacks it
        self._checked_s = 0.0
        self._since_s = time.time()
        self._has_schedule = bool(settings.retrain_every_ratings or settings.retrain_every_hours)

    def submit_due(self) -> None:
        """Submit one training if one is due. Cheap enough to be called often."""
        is_off = not (self._settings.retrain_share or self._has_schedule)
        if is_off or time.monotonic() - self._checked_s < CHECK_EVERY_S:
            return
        self._checked_s = time.monotonic()
        hours, every = self._settings.retrain_every_hours, self._settings.retrain_every_ratings
        share = self._settings.retrain_share
        for name in self.names():
            last = self.last(name)
            if self._log.last_id() <= last.watermark:
                continue
            if hours and time.time() - last.time_s >= hours * HOUR_S:
                break
            n_new = self._sizes[name].newer({last.watermark})[last.watermark]
            if every and n_new >= every:
                break
            if share and last.n_ratings is not None and n_new >= max(share * last.n_ratings, MIN_NEW_RATINGS):
                break
        else:
            return
        if name not in self.names():  # it was ended while its ratings were counted
            return
        if self._jobs.trainings(name):
            return
        attempt = self._log.last_id(), time.time()
        try:
            self._jobs.submit_training(last.again(name))
        except NoMinutesLeft:
            return
        except InvalidParams as error:  # another version of the service wrote the snapshot, with other parameters
            _log.error("model cannot be retrained as before: train it once by hand", model=name, error=str(error))
        self._attempts[name] = attempt

    def names(self) -> Iterable[str]:
        """The live models; else the trained ones; else, if a schedule is set, the first algorithm of `default_models`.

        None if the last live model was ended: it would come back.
        """
        live = live_versions.read_all(self._settings.data)
        if live.is_written:
            return list(live.versions)
        names = sorted({version_names.name_of(version) for version in snapshot.versions(self._folder)})
        defaults = [name for name in self._settings.default_models if name in ALGORITHMS]
        return names or (defaults[:1] if self._has_schedule else [])

    def last(self, name: str) -> LastTraining:
        """The last training of a model, or the last attempt."""
        watermark, time_s = self._attempts.get(name, (ZERO, self._since_s))
        newest = self.manifest(next(iter(snapshot.versions(self._folder, name)), None))
        if newest is None:
            return LastTraining(watermark, time_s, name, {}, False, None)
        watermark = max(watermark, StreamId.parse(newest.watermark))
        time_s = max(time_s if name in self._attempts else 0.0, version_names.time_of(newest.version))
        live = live_versions.read_all(self._settings.data)
        served = self.manifest(live.versions.get(name)) or newest
        n_ratings = newest.n_ratings
        if n_ratings is None:  # an old snapshot: the ratings in the log up to its watermark, counted once
            if newest.version not in self._trained_on:
                after = StreamId.parse(newest.watermark)
                n_rows = LogSize(self._log).newer({ZERO, after})
                self._trained_on[newest.version] = n_rows[ZERO] - n_rows[after]
            n_ratings = self._trained_on[newest.version]
        return LastTraining(
            watermark=watermark,
            time_s=time_s,
            algorithm=served.algorithm,
            params=served.given,
            is_shadow=name in live.shadows,
            n_ratings=n_ratings,
        )

    def manifest(self, version: str | None) -> Manifest | None:
        """That of a version; None if it cannot be read."""
        with contextlib.suppress(CorruptSnapshot, UnknownVersion):
            return None if version is None else snapshot.read_manifest(self._folder, version)
        return None

    @property
    def _folder(self) -> Path:
        return self._settings.data / "snapshots"
