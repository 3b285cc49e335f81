"""`Cors`: the headers by which a browser lets pages of other origins use the service (fetch.spec.whatwg.org).

Starlette's middleware does not fit: it answers preflights in plain text, without an id, uncounted and unlimited, and
it would stand outside of the layer that makes most errors. Pages must be able to read a 401 and a 429 too.

No answer allows credentials. A key goes in `X-API-Key` or behind `Bearer`, which no browser sends by itself, so a page
of any allowed origin has the rights of the keys that it knows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from starlette.types import Send

from service.api.parsers.bodies import Message
from service.api.problems import Headers

ANY = "*"
METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
SENT = b"X-API-Key, Authorization, Content-Type, X-Request-ID, X-Source, X-Offset"
EXPOSED = b"X-Request-ID, Retry-After, X-As-Of"
MAX_AGE_S = 600  # for which a browser keeps the answer to a preflight
_VARY = (b"vary", b"Origin")
_WANTED = b"access-control-request-method"
READ_HEADERS = frozenset((b"origin", _WANTED))


class Cors:
    """Decides by the setting `cors_origins`.

    Attributes:
        is_on: whether any origin is allowed; otherwise no answer differs from one without this class.
        origins: the allowed origins, as `Origin` has them; empty for `*`.
        always: headers of answers to requests without `Origin`, which caches must not hand to pages.
    """

    def __init__(self, origins: Collection[str]) -> None:
        self.is_on = bool(origins)
        self._is_any = ANY in origins
        self.origins = frozenset(origin.encode() for origin in origins if origin != ANY)
        self.always: Headers = [_VARY] if self.origins else []

    def preflight(self, method: str, headers: Mapping[bytes, bytes]) -> Headers | None:
        """The headers that answer a preflight of an allowed origin; None for all other requests."""
        if method != "OPTIONS" or _WANTED not in headers or not self._allowed(headers.get(b"origin")):
            return None
        return [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", SENT),
            (b"access-control-max-age", str(MAX_AGE_S).encode()),
        ]

    def adding(self, send: Send, origin: bytes | None) -> Send:
        """`send` that adds the headers for a request with this `Origin` to its answer."""
        allowed = self._allowed(origin)
        extra = list(self.always)
        if allowed:
            extra += [(b"access-control-allow-origin", allowed), (b"access-control-expose-headers", EXPOSED)]

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        return add

    def _allowed(self, origin: bytes | None) -> bytes | None:
        """The value that allows a page of `origin` to read the answer; None if it may not."""
        if origin is None:
            return None
        return ANY.encode() if self._is_any else origin if origin in self.origins else None
