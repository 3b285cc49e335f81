"""`ServiceError` and its families. Each knows the HTTP status, slug and title of its problem document.

A room has its own errors in its `errors.py`: `service.api.errors`, `service.engine.errors`, and so on. What is here is
raised by several rooms, or is only a family:

ServiceError (500)
├── InvalidRequest (422): a value in the request cannot be used
├── NotFound (404), Conflict (409): the path names nothing; the present state forbids the request
├── TooManyRequests (429): over a rate
└── Unavailable (503, Retry-After): try again, nothing was lost
    ├── NotReady: ratings are still being read, or the requested model is being prepared
    └── Overloaded: too many requests are waiting
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


class NotFound(ServiceError):
    """The path names something that does not exist."""

    status, slug, title = 404, "not-found", "Not found"


class Conflict(ServiceError):
    """The present state forbids the request."""

    status, slug, title = 409, "conflict", "Conflict"


class TooManyRequests(ServiceError):
    """The client has sent more requests than the rate limit allows."""

    status, slug, title, closes = 429, "too-many-requests", "Too many requests", True

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unavailable(ServiceError):
    """The service cannot answer now; no data was lost, and a retry may succeed."""

    status, slug, title, retry_after_s = 503, "unavailable", "Unavailable", 1


class NotReady(Unavailable):
    """Ratings are still being read, or the requested model is being prepared.

    Attributes:
        fraction: how much of the start is done, 0 to 1; None if unknown.
    """

    slug, title = "not-ready", "Not ready"

    def __init__(self, message: str, fraction: float | None = None) -> None:
        super().__init__(message)
        self.fraction = fraction


class Overloaded(Unavailable):
    """Too many requests are already waiting."""

    slug, title = "overloaded", "Overloaded"
