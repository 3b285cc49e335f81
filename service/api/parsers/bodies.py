"""Bodies of requests: which types, encodings and lengths are accepted, and how they are read."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from service.api.door.auth import CONSOLE_PREFIX, WRITTEN_PATHS
from service.api.errors import BodyTooLarge, MalformedBody, UnsupportedMediaType
from service.api.parsers.body_turns import LARGE_BYTES, BodyTurns
from service.api.parsers.elements import MAX_VALUES, Body, check_values

JSON, NDJSON = b"application/json", b"application/x-ndjson"
FORM = b"application/x-www-form-urlencoded"  # of the console alone, whose forms carry tokens
MAX_FORM_BYTES = 64 << 10
HEADERS = frozenset((b"content-type", b"content-encoding", b"content-length", b"transfer-encoding"))
SOURCE_HEADERS = frozenset((b"x-source", b"x-offset"))
_PACKED, _UNPACKED = (b"gzip", b"x-gzip"), b"identity"
_GZIP_WINDOW = 31  # `wbits` of zlib for gzip, with its largest window
_MAX_SHOWN = 128  # bytes of a header in a message

P = ParamSpec("P")
T = TypeVar("T")
RequestHeaders = Mapping[bytes, bytes]
Message = MutableMapping[str, Any]


def check_announced(method: str, path: bytes, headers: RequestHeaders, max_bytes: int) -> None:
    """Check length, type and encoding of a body by the headers, before it is read.

    A page of another site can send none of the accepted types without asking first (see `service.api.door.site_check`),
    but forms to the console, which checks tokens.

    Raises:
        BodyTooLarge: longer than `max_bytes` as it is sent.
        UnsupportedMediaType: not JSON, nor NDJSON where elements are posted, nor a form of the console; or packed by
            anything but gzip.
    """
    length, max_bytes = length_of(headers), max_bytes_of(path, max_bytes)
    if length > max_bytes:
        raise BodyTooLarge(f"Invalid body: expected at most {max_bytes:,} bytes, got {length:,}")
    if not length and b"transfer-encoding" not in headers:
        return
    kinds = media_types_for(method, path)
    kind = media_type_of(headers.get(b"content-type", b"none"))
    if kind not in kinds:
        expected = b" or ".join(kinds).decode()
        raise UnsupportedMediaType(
            f"Invalid Content-Type: expected {expected}, got {kind[:_MAX_SHOWN].decode('latin-1')}"
        )
    encoding = encoding_of(headers)
    if encoding not in (*_PACKED, _UNPACKED):
        raise UnsupportedMediaType(
            f"Invalid Content-Encoding: expected gzip or none, got {encoding[:_MAX_SHOWN].decode('latin-1')}"
        )


def media_types_for(method: str, path: bytes) -> tuple[bytes, ...]:
    """The media types that a path takes."""
    if path.startswith(CONSOLE_PREFIX):
        return (FORM,)
    return (JSON, NDJSON) if method in ("POST", "PATCH") and path in WRITTEN_PATHS else (JSON,)


def max_bytes_of(path: bytes, max_bytes: int) -> int:
    """The longest body of a path, if `max_bytes` is that of the API."""
    return min(max_bytes, MAX_FORM_BYTES) if path.startswith(CONSOLE_PREFIX) else max_bytes


def length_of(headers: RequestHeaders) -> int:
    """Content-Length, 0 if there is none."""
    value = headers.get(b"content-length", b"")
    return int(value) if value.isdigit() else 0


async def whole(
    receive: Receive, method: str, path: bytes, headers: RequestHeaders, max_bytes: int, turns: BodyTurns
) -> bytes:
    """The whole body, unpacked, when it is the turn of this request to parse it; empty if there is none.

    Raises:
        BodyTooLarge: longer than `max_bytes`, packed or unpacked; or one document of more than `MAX_VALUES`.
        MalformedBody: not in its packing.
        Overloaded: too many large bodies wait.
        ClientDisconnect: the client has gone before its end.
    """
    if b"content-length" not in headers and b"transfer-encoding" not in headers:
        return b""
    max_bytes = max_bytes_of(path, max_bytes)
    # As it is sent; Content-Length may be missing.
    received, has_more = bytearray(), True
    while has_more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        received += message.get("body", b"")
        has_more = message.get("more_body", False)
        if len(received) > max_bytes:
            raise BodyTooLarge(f"Invalid body: expected at most {max_bytes:,} bytes, got more")
    content = bytes(received)
    if encoding_of(headers) in _PACKED:  # takes no more memory than `max_bytes` before it fails
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        try:
            content = unpacker.decompress(content, max_bytes + 1)
        except zlib.error as error:
            raise MalformedBody(f"Invalid body: expected gzip, got something else ({error})") from None
        if len(content) > max_bytes:
            raise BodyTooLarge(f"Invalid body: expected at most {max_bytes:,} bytes when unpacked, got more")
        if unpacker.unused_data or not unpacker.eof:
            wrong = "more after it" if unpacker.eof else "its beginning only"
            raise MalformedBody(f"Invalid body: expected one member of gzip, got {wrong}")
    if len(content) > LARGE_BYTES:
        await turns.take(len(content))
    if len(content) > MAX_VALUES and media_types_for(method, path) == (
        JSON,
    ):  # of elements each is a document of its own
        check_values(content)
    return content


def body_of(content: bytes, headers: RequestHeaders) -> Body:
    """The body of a request that posts elements."""
    return Body(content, media_type_of(headers.get(b"content-type", b"")) == NDJSON)


async def of_large(body: Body, read: Callable[Concatenate[Body, P], T], *values: P.args, **named: P.kwargs) -> T:
    """What `read` makes of the elements of a body. Those of a large one are judged in a thread: that may take long."""
    if len(body.content) <= LARGE_BYTES:
        return read(body, *values, **named)
    return await asyncio.to_thread(read, body, *values, **named)


def media_type_of(content_type: bytes) -> bytes:
    """A media type without its parameters."""
    return content_type.partition(b";")[0].strip().lower()


def encoding_of(headers: RequestHeaders) -> bytes:
    """How a body is packed."""
    return headers.get(b"content-encoding", _UNPACKED).strip().lower()
