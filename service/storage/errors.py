"""Errors of the stream in Redis, of the rating log, of models and of other files in DATA.

The families are in `service.base.errors`.
"""

from __future__ import annotations

from service.base.errors import NotFound, ServiceError, Unavailable


class StreamUnavailable(Unavailable):
    """Redis is gone, loading or refuses to write; the ratings were not acknowledged."""

    slug, title = "stream-unavailable", "Stream unavailable"


class LogUnavailable(Unavailable):
    """The rating log cannot be written, most often because the disk is full."""

    slug, title = "log-unavailable", "Rating log unavailable"
    retry_after_s = 5


class LockTimeout(Unavailable):
    """Another process has held the lock of a file for too long; the message names the file."""

    slug, title = "lock-timeout", "Lock not free"


class InvalidKey(Unavailable):
    """Another program overwrote a key of the service in Redis; the message names the key."""

    slug, title, retry_after_s = "invalid-key", "Invalid key in Redis", 30


class NewerEntry(Unavailable):
    """A newer version of Nearfield wrote an entry that this one cannot read; upgrade this process."""

    slug, title, retry_after_s = "newer-entry", "Entry of a newer version", 30


class BadEntry(ServiceError):
    """A stream entry is not in the format of `service.storage.events`."""

    status, slug, title = 422, "bad-entry", "Bad stream entry"


class VolatileServer(Unavailable):
    """The configured Redis could lose acknowledged ratings."""

    slug, title, retry_after_s = "volatile-server", "Redis is not durable", 30


class StreamReplaced(Unavailable):
    """Redis and the rating log contradict each other; an operator must decide which one is right."""

    slug, title, retry_after_s = "stream-replaced", "Stream replaced", 30


class ServerFailed(Unavailable):
    """The embedded Redis server does not start; the message quotes the last lines of its log."""

    slug, title = "server-failed", "Redis server failed"


class DataInUse(ServiceError):
    """Another process holds the data folder; the message names its pid."""

    slug, title = "data-in-use", "Data folder in use"


class CorruptLog(ServiceError):
    """A segment of the rating log is torn or altered; the message names the file."""

    slug, title = "corrupt-log", "Corrupt rating log"


class CorruptLiveFile(Unavailable):
    """`live.json` is torn or altered; the message names the file and the reason."""

    slug, title, retry_after_s = "corrupt-live-file", "Corrupt live.json", 30


class CorruptSnapshot(ServiceError):
    """A snapshot is torn or altered; the message names the file and the reason."""

    status, slug, title = 422, "corrupt-snapshot", "Corrupt snapshot"


class NewerSnapshot(CorruptSnapshot):
    """A newer version of Nearfield wrote the snapshot; the message names both formats."""

    slug, title = "newer-snapshot", "Snapshot of a newer version"


class UnknownModel(NotFound):
    """No live model has that name."""

    slug, title = "unknown-model", "Unknown model"


class UnknownVersion(NotFound):
    """No snapshot has that version."""

    slug, title = "unknown-version", "Unknown version"
