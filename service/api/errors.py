"""Errors of requests that are refused before a route sees them, and of bodies; families: `service.base.errors`."""

from __future__ import annotations

from service.base.errors import InvalidRequest, ServiceError


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


class KeyRefused(ServiceError):
    """The key does not permit the request.

    Attributes:
        challenges: values of `WWW-Authenticate`.
        fault: what RFC 6750, section 3.1, calls this.
    """

    closes = True
    challenges: tuple[bytes, ...] = ()
    fault = b""

    def came_as_bearer(self) -> None:
        """Say the fault: the key came behind `Bearer`."""
        self.challenges = (*self.challenges[:1], b'Bearer error="%b"' % self.fault)


class NotAuthorized(KeyRefused):
    """The key is missing or wrong."""

    status, slug, title, fault = 401, "not-authorized", "Not authorized", b"invalid_token"
    challenges = (b"X-API-Key", b"Bearer")


class Forbidden(KeyRefused):
    """The key is valid but does not permit this request."""

    status, slug, title, fault = 403, "forbidden", "Forbidden", b"insufficient_scope"


class ForeignSite(ServiceError):
    """A web page of another site made the request, and no key is set that would stop it."""

    status, slug, title, closes = 403, "foreign-site", "Request of another site", True
