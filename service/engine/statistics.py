"""`Statistics`: the sizes of a running service in numbers, for `GET /admin/stats`."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterable
from importlib import metadata

import numpy as np
from msgspec import Struct

from gpu.base.backend import Backend
from service.engine.engine import Engine
from service.engine.models.shelf import n_available
from service.engine.quotas import Quota, Quotas
from service.engine.state.history import History
from service.storage.archive import Archive
from service.storage.events import StreamId
from service.storage.log.log_size import LogSize
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import version_names
from service.storage.streams.stream import Stream
from service.telemetry.metrics import Metrics


class LogStats(Struct):
    """The rating log: segments, rows (ratings, events and other entries), bytes on disk, and its last stream id."""

    segments: int
    rows: int
    bytes: int
    last_id: str


class StreamStats(Struct):
    """The stream in Redis: entries, bytes of memory, and the last stream id that was given."""

    entries: int
    bytes: int
    last_id: str


class ModelStats(Struct):
    """A live model.

    Attributes:
        age_s: seconds since its training.
        ratings_since: ratings and other rows of the log after its training; it has learned them online.
        refits_waiting: refits of trained items and their users that are due or under way.
        revision: how many times a user was forgotten in the snapshot that it was loaded from; `GET /admin/models` has
            the newest one, which takes its place within seconds.
    """

    model: str
    model_version: str
    age_s: float
    ratings_since: int
    refits_waiting: int
    revision: int


class Stats(Struct):
    """Sizes of the service.

    Attributes:
        users, items: ids that are known, without forgotten users.
        ratings: present ratings.
        events: events counted since the log begins, without those of users who were removed from it.
        hidden: hidden items.
        deleted: deleted items.
        lag_s: seconds between the newest entry of the stream and the newest one in all answers.
        models: the live ones, the first of which answers requests that name none.
        quotas: how much the data set may hold and use, and how much it does.
    """

    users: int
    items: int
    ratings: int
    events: int
    hidden: int
    deleted: int
    log: LogStats
    stream: StreamStats
    models: list[ModelStats]
    as_of: str
    lag_s: float
    uptime_s: float
    version: str
    quotas: list[Quota]


class Statistics:
    """Takes the numbers. The engine changes them meanwhile, so a number may be slightly old."""

    def __init__(self, engine: Engine, stream: Stream, log: RatingLog, quotas: Quotas) -> None:
        self._engine, self._stream, self._log, self._quotas = engine, stream, log, quotas
        self._size, self._lock, self._started_s = LogSize(log), threading.Lock(), time.monotonic()

    def take(self) -> Stats:
        """The present numbers.

        Raises:
            StreamUnavailable: Redis is gone.
            CorruptLog: a segment is torn or altered.
        """
        history, as_of, last_id = self._engine.history, self._engine.as_of, self._stream.last_id()
        with self._lock:
            models, size = self._models(), self._size.measure()
        return Stats(
            users=history.users.n_known,
            items=history.items.n_known,
            ratings=history.table.n_ratings,
            events=history.n_events,
            hidden=int(np.count_nonzero(history.hidden)),
            deleted=int(np.count_nonzero(history.catalog.deleted)),
            log=LogStats(*size, str(self._log.last_id())),
            stream=StreamStats(*self._stream.size(), str(last_id)),
            models=models,
            as_of=str(as_of),
            lag_s=max(last_id.ms - as_of.ms, 0) / 1000,
            uptime_s=round(time.monotonic() - self._started_s, 3),
            version=metadata.version("nearfield"),
            quotas=self._quotas.shown(),
        )

    def _models(self) -> list[ModelStats]:
        models = self._engine.models()
        watermarks = {model.version: StreamId.parse(model.manifest.watermark) for model in models}
        newer = self._size.newer(set(watermarks.values()))
        return [
            ModelStats(
                model.name,
                model.shown_version,
                round(time.time() - version_names.time_of(model.version), 3),
                newer[watermarks[model.version]],
                model.online.n_waiting,
                version_names.revision_of(model.version),
            )
            for model in models
        ]


def watch(history: History, metrics: Metrics) -> None:
    """Show the sizes of `history` as metrics. The engine changes it meanwhile, so a number may be slightly old."""
    metrics.users.set_function(lambda: history.users.n_known)
    metrics.users_forgotten.set_function(lambda: len(history.users) - history.users.n_known)
    metrics.items.set_function(lambda: history.items.n_known)
    metrics.items_hidden.set_function(lambda: int(np.count_nonzero(history.hidden)))
    metrics.items_available.set_function(lambda: n_available(history))
    metrics.ratings.set_function(lambda: history.table.n_ratings)


def watch_archiver(archiver: Archive, metrics: Metrics) -> None:
    """Show the state of what archives, or copies the log, as metrics."""
    metrics.archiver_lag_seconds.set_function(lambda: archiver.lag_s)
    metrics.rating_log_damaged.set_function(lambda: float(archiver.damage is not None))
    metrics.archiver_pending_ratings.set_function(lambda: archiver.n_pending)


def watch_quotas(quotas: Quotas, names: Iterable[str], metrics: Metrics) -> None:
    """Show the share of each quota as a metric."""
    for name in names:
        metrics.quota_used_ratio.labels(name).set_function(functools.partial(quotas.used, name))


def watch_device(backend: Backend, metrics: Metrics) -> None:
    """Show the memory of the GPU as metrics, if there is one."""
    for of in backend.device_bytes():
        metrics.device_bytes.labels(of).set_function(functools.partial(_device_bytes, backend, of))


def _device_bytes(backend: Backend, of: str) -> float:
    return backend.device_bytes()[of]
