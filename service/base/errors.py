"""Errors of the service. Each knows the HTTP status, slug and title of its problem document.

ServiceError (500)
├── InvalidRequest (422): a value in the request cannot be used
│   ├── MalformedBody (400): not JSON, or neither object nor array
│   ├── BodyTooLarge (413)
│   └── UnsupportedMediaType (415): a body of a type or an encoding that the route does not take
├── MalformedRequest (400): the end of the request cannot be determined
├── UrlTooLong (414), HeadTooLarge (431): longer than the service reads
├── RequestTimeout (408): the client took too long to send the request
├── NotAuthorized (401): the key is missing or wrong
├── Forbidden (403): the key is valid but does not permit this request; BadForm, in `service.extras.console.visit`
├── ForeignSite (403): no key is set, and a web page of another site made the request
├── NotFound (404)
│   ├── UnknownUser, UnknownItem
│   ├── UnknownModel: no live model of that name
│   ├── UnknownVersion: no snapshot of that version
│   ├── UnknownScenario, in `service.engine.queries.document_queries`; UnknownKey, UnknownWebhook, in `service.storage`
│   └── UnknownJob
├── Gone (410), Conflict (409): what a cursor continues is gone; the present state forbids the request
│   └── JobRunning: a retrain is queued or running; carries its id
├── TooManyRequests (429): over the rate limit
├── Unavailable (503, Retry-After): try again, nothing was lost
│   ├── StreamUnavailable: Redis is gone, loading or refuses to write
│   ├── LogUnavailable: the rating log cannot be written (disk full)
│   ├── LockTimeout: another process holds a file's lock for too long
│   ├── InvalidKey: another program overwrote a key of the service in Redis
│   ├── NewerEntry: a newer version wrote an entry; upgrade this process
│   ├── CorruptLiveFile, and CorruptFile in `service.storage.sealed_file`: live.json, or another file, is altered
│   ├── NotReady: ratings are still being read, or the requested model is being prepared
│   ├── StaleScenario, in `service.engine.queries`; StoreUnavailable (StoreRefused: 502), in `service.extras.stores`
│   └── NotSeenYet, Overloaded: `wait_for` was not reached in time; too many requests are waiting
├── CorruptSnapshot (422): a snapshot is torn or altered
│   └── NewerSnapshot: a newer version wrote it
├── CorruptLog (500): a segment of the rating log is torn or altered
├── VolatileServer, StreamReplaced (503): Redis could lose acknowledged ratings; Redis and the rating log contradict
├── ServerFailed (503), DataInUse (500): the embedded Redis does not start; another process holds the data folder
├── BadEntry (422): a stream entry that is not in the format of `service.storage.events`
├── InvalidSetting (422): an option or an environment variable has a value that cannot be used
└── InvalidRatingsFile (422): a file of ratings or items cannot be read; the message names the line
"""

from __future__ import annotations

from typing import ClassVar


class ServiceError(Exception):
    """Base of every error that the service raises on purpose.

    Attributes:
        status: HTTP status.
        slug: stable name of the problem, the last part of its `type`.
        title: the problem in words, for people.
        closes: whether the server closes the connection after this answer. A refused client then has to open a new one.
        retry_after_s: seconds after which a retry makes sense, or None.
    """

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal-error"
    title: ClassVar[str] = "Internal error"
    closes: ClassVar[bool] = False
    retry_after_s: int | None = None


class InvalidRequest(ServiceError):
    """A value in the request cannot be used."""

    status, slug, title = 422, "invalid-request", "Invalid request"


class MalformedBody(InvalidRequest):
    """The body is not JSON, or neither an object nor an array."""

    status, slug, title = 400, "malformed-body", "Malformed body"


class BodyTooLarge(InvalidRequest):
    """The body is longer than the limit."""

    status, slug, title, closes = 413, "body-too-large", "Body too large", True


class UnsupportedMediaType(InvalidRequest):
    """The route does not take bodies of this type or this encoding."""

    status, slug, title, closes = 415, "unsupported-media-type", "Unsupported media type", True


class MalformedRequest(ServiceError):
    """The end of the request cannot be determined from its headers."""

    status, slug, title, closes = 400, "malformed-request", "Malformed request", True


class UrlTooLong(ServiceError):
    """The URL is longer than the service reads."""

    status, slug, title, closes = 414, "url-too-long", "URL too long", True


class HeadTooLarge(ServiceError):
    """Request line and headers are longer than the service reads."""

    status, slug, title, closes = 431, "head-too-large", "Request headers too large", True


class RequestTimeout(ServiceError):
    """The client took too long to send the request."""

    status, slug, title, closes = 408, "request-timeout", "Request timeout", True


class NotAuthorized(ServiceError):
    """The key is missing or wrong."""

    status, slug, title, closes = 401, "not-authorized", "Not authorized", True


class Forbidden(ServiceError):
    """The key is valid but does not permit this request."""

    status, slug, title, closes = 403, "forbidden", "Forbidden", True


class ForeignSite(ServiceError):
    """A web page of another site made the request, and no key is set that would stop it."""

    status, slug, title, closes = 403, "foreign-site", "Request of another site", True


class NotFound(ServiceError):
    """The path names something that does not exist."""

    status, slug, title = 404, "not-found", "Not found"


class UnknownUser(NotFound):
    """The user has never rated anything, or was forgotten."""

    slug, title = "unknown-user", "Unknown user"


class UnknownItem(NotFound):
    """No user has ever rated the item."""

    slug, title = "unknown-item", "Unknown item"


class UnknownModel(NotFound):
    """No live model has that name."""

    slug, title = "unknown-model", "Unknown model"


class UnknownVersion(NotFound):
    """No snapshot has that version."""

    slug, title = "unknown-version", "Unknown version"


class UnknownJob(NotFound):
    """No job has that id."""

    slug, title = "unknown-job", "Unknown job"


class Gone(ServiceError):
    """The model whose list a cursor continues is not live any more."""

    status, slug, title = 410, "gone", "Gone"


class Conflict(ServiceError):
    """The present state forbids the request."""

    status, slug, title = 409, "conflict", "Conflict"


class JobRunning(Conflict):
    """A retrain is queued or running.

    Attributes:
        job_id: the unfinished job.
    """

    slug, title = "job-running", "A job is already running"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"A retrain is already running (job {job_id}): wait for it or cancel it")
        self.job_id = job_id


class TooManyRequests(ServiceError):
    """The client has sent more requests than the rate limit allows."""

    status, slug, title, closes = 429, "too-many-requests", "Too many requests", True

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unavailable(ServiceError):
    """The service cannot answer now; no data was lost, and a retry may succeed."""

    status, slug, title, retry_after_s = 503, "unavailable", "Unavailable", 1


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


class CorruptLiveFile(Unavailable):
    """`live.json` is torn or altered; the message names the file and the reason."""

    slug, title, retry_after_s = "corrupt-live-file", "Corrupt live.json", 30


class NotReady(Unavailable):
    """Ratings are still being read, or the requested model is being prepared.

    Attributes:
        fraction: how much of the start is done, 0 to 1; None if unknown.
    """

    slug, title = "not-ready", "Not ready"

    def __init__(self, message: str, fraction: float | None = None) -> None:
        super().__init__(message)
        self.fraction = fraction


class NotSeenYet(Unavailable):
    """The engine did not reach the position in `wait_for` in time."""

    slug, title = "not-seen-yet", "Not seen yet"


class Overloaded(Unavailable):
    """Too many requests are already waiting."""

    slug, title = "overloaded", "Overloaded"


class CorruptSnapshot(ServiceError):
    """A snapshot is torn or altered; the message names the file and the reason."""

    status, slug, title = 422, "corrupt-snapshot", "Corrupt snapshot"


class NewerSnapshot(CorruptSnapshot):
    """A newer version of Nearfield wrote the snapshot; the message names both formats."""

    slug, title = "newer-snapshot", "Snapshot of a newer version"


class CorruptLog(ServiceError):
    """A segment of the rating log is torn or altered; the message names the file."""

    slug, title = "corrupt-log", "Corrupt rating log"


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


class BadEntry(ServiceError):
    """A stream entry is not in the format of `service.storage.events`."""

    status, slug, title = 422, "bad-entry", "Bad stream entry"


class InvalidSetting(ServiceError, ValueError):
    """An option or an environment variable has a value that cannot be used."""

    status, slug, title = 422, "invalid-setting", "Invalid setting"


class InvalidRatingsFile(ServiceError, ValueError):
    """A file of ratings or items cannot be read; the message names the file, the line and the reason."""

    status, slug, title = 422, "invalid-ratings-file", "Invalid ratings file"
