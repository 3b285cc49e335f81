"""Bodies of requests: which types, encodings and lengths are accepted, and how they are read."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive

from service.api.auth import CONSOLE_PREFIX, WRITTEN_PATHS
from service.api.parsers.elements import Body
from service.errors import BodyTooLarge, MalformedBody, UnsupportedMediaType

JSON, NDJSON = b"application/json", b"application/x-ndjson"
FORM = b"application/x-www-form-urlencoded"  # of the console alone, whose forms carry tokens
HEADERS = frozenset((b"content-type", b"content-encoding", b"content-length", b"transfer-encoding"))
SOURCE_HEADERS = frozenset((b"x-source", b"x-offset"))
_PACKED, _UNPACKED = (b"gzip", b"x-gzip"), b"identity"
_GZIP_WINDOW = 31  # `wbits` of zlib for gzip, with its largest window
_MAX_SHOWN = 128  # bytes of a header in a message

RequestHeaders = Mapping[bytes, bytes]
Message = MutableMapping[str, Any]


def check_announced(method: str, path: bytes, headers: RequestHeaders, max_bytes: int) -> None:
    """Check length, type and encoding of a body by the headers, before it is read.

    A page of another site can send none of the accepted types without asking first (see `service.api.site_check`), but
    forms to the console, which checks tokens.

    Raises:
        BodyTooLarge: longer than `max_bytes` as it is sent.
        UnsupportedMediaType: not JSON, nor NDJSON where elements are posted, nor a form of the console; or packed by
            anything but gzip.
    """
    length = length_of(headers)
    if length > max_bytes:
        raise BodyTooLarge(f"Invalid body: expected at most {max_bytes:,} bytes, got {length:,}")
    if not length and b"transfer-encoding" not in headers:
        return
    kinds = _kinds_for(method, path)
    kind = _kind(headers.get(b"content-type", b"none"))
    if kind not in kinds:
        expected = b" or ".join(kinds).decode()
        raise UnsupportedMediaType(f"Invalid Content-Type: expected {expected}, got {_shown(kind)}")
    encoding = _encoding(headers)
    if encoding not in (*_PACKED, _UNPACKED):
        raise UnsupportedMediaType(f"Invalid Content-Encoding: expected gzip or none, got {_shown(encoding)}")


def _kinds_for(method: str, path: bytes) -> tuple[bytes, ...]:
    if path.startswith(CONSOLE_PREFIX):
        return (FORM,)
    return (JSON, NDJSON) if method in ("POST", "PATCH") and path in WRITTEN_PATHS else (JSON,)


def length_of(headers: RequestHeaders) -> int:
    """Content-Length, 0 if there is none."""
    value = headers.get(b"content-length", b"")
    return int(value) if value.isdigit() else 0


def is_plain(headers: RequestHeaders) -> bool:
    """Whether a body, if there is one, is JSON that is not packed and has no source."""
    if b"content-encoding" in headers or not SOURCE_HEADERS.isdisjoint(headers):
        return False
    return headers.get(b"content-type", JSON).startswith(JSON)


def bounded(receive: Receive, headers: RequestHeaders, max_bytes: int) -> Receive:
    """`receive` of the unpacked body, which fails when it exceeds `max_bytes`, packed or unpacked."""
    counted = _limited(receive, max_bytes)  # because Content-Length may be missing
    return _unpacked(counted, max_bytes) if _encoding(headers) in _PACKED else counted


async def body_of(request: Request) -> Body:
    """The whole body of a request that posts elements."""
    return Body(await request.body(), _kind(request.headers.get("content-type", "").encode("latin-1")) == NDJSON)


def _limited(receive: Receive, max_bytes: int) -> Receive:
    n_bytes = 0

    async def counted() -> Message:
        nonlocal n_bytes
        message = await receive()
        n_bytes += len(message.get("body", b""))
        if n_bytes > max_bytes:
            raise _refused(BodyTooLarge.status, f"expected at most {max_bytes:,} bytes, got more")
        return message

    return counted


def _unpacked(receive: Receive, max_bytes: int) -> Receive:
    """`receive` that unpacks gzip piece by piece, so that little memory is taken before it fails."""
    unpacker, n_left = zlib.decompressobj(_GZIP_WINDOW), max_bytes

    async def unpacked() -> Message:
        nonlocal n_left
        message = await receive()
        if message["type"] != "http.request":
            return message
        try:
            data = unpacker.decompress(message.get("body", b""), n_left + 1)
        except zlib.error as error:
            raise _refused(MalformedBody.status, f"expected gzip, got something else ({error})") from None
        n_left -= len(data)
        if n_left < 0:
            raise _refused(BodyTooLarge.status, f"expected at most {max_bytes:,} bytes when unpacked, got more")
        if unpacker.unused_data or not (unpacker.eof or message.get("more_body")):
            wrong = "more after it" if unpacker.eof else "its beginning only"
            raise _refused(MalformedBody.status, f"expected one member of gzip, got {wrong}")
        return {**message, "body": data}

    return unpacked


def _refused(status: int, reason: str) -> HTTPException:
    """An HTTPException, because the framework turns every other error in reading a body into a 400."""
    return HTTPException(status, f"Invalid body: {reason}", {"connection": "close"})


def _kind(content_type: bytes) -> bytes:
    """A media type without its parameters."""
    return content_type.partition(b";")[0].strip().lower()


def _encoding(headers: RequestHeaders) -> bytes:
    return headers.get(b"content-encoding", _UNPACKED).strip().lower()


def _shown(value: bytes) -> str:
    return value[:_MAX_SHOWN].decode("latin-1")
