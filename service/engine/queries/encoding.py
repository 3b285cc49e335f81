"""Answers as JSON. The engine's process encodes each answer once, and the API adds what only it knows of a request."""

from __future__ import annotations

from typing import Any

import msgspec

from service.engine.queries import Answer

_encode = msgspec.json.Encoder().encode
# How a `Recommendation` ends before the API has filled in its last two fields.
_UNFINISHED = b',"took_ms":0.0,"request_id":""}'


def encoded(answer: Answer) -> list[bytes]:
    """The JSON of an answer, or of each recommendation of a list."""
    return [_encode(one) for one in answer] if isinstance(answer, list) else [_encode(answer)]


def finished(body: bytes, took_ms: float, request_id: str) -> bytes:
    """The JSON of a `Recommendation` with the fields that belong to the request."""
    return b'%b,"took_ms":%b,"request_id":%b}' % (
        body[: -len(_UNFINISHED)], _encode(round(took_ms, 3)), _encode(request_id),
    )  # fmt: skip


def json_of(value: Any) -> bytes:
    """`value` as JSON; bytes are encoded already."""
    return value if isinstance(value, bytes) else _encode(value)
