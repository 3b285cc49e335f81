"""Answers as JSON. The engine's process encodes each answer once, and the API adds what only it knows of a request."""

from __future__ import annotations

from typing import Any

import msgspec

from service.engine.queries import Answer, OfRequest, Recommendation
from service.engine.queries.columns import ListColumns

_encode = msgspec.json.Encoder().encode


def encoded(answer: Answer) -> list[bytes] | ListColumns:
    """The JSON of an answer, or of each recommendation of a list. Columns become JSON where they are read."""
    if isinstance(answer, ListColumns):
        return answer
    return [_encode(one) for one in answer] if isinstance(answer, list) else [_encode(answer)]


def after_items(answer: Recommendation) -> bytes:
    """What follows the items in the JSON of an answer that has none, and has no user."""
    return _encode(answer).partition(b"[]")[2]


def finished(body: bytes, took_ms: float, request_id: str) -> bytes:
    """The JSON of a `Recommendation`, which is an object, with the fields of `OfRequest` as its last ones."""
    return b"%b,%b" % (body[:-1], _encode(OfRequest(round(took_ms, 3), request_id))[1:])


def json_of(value: Any) -> bytes:
    """`value` as JSON; bytes are encoded already."""
    return value if isinstance(value, bytes) else _encode(value)
