"""Each event of a body is judged alone; a bad one gets one clear reason."""

import json
import math
from typing import Any

import msgspec
import pytest

from service.api.errors import MalformedBody
from service.api.parsers.elements import Body, Intake
from service.api.parsers.event_parser import read_events
from service.base.errors import InvalidRequest
from service.settings.event_types import DEFAULT_TYPES
from service.storage.events import StreamId, TypedEvent, encode_events, parse_entry

NOW_S = 1_700_000_000.5
GOOD: dict[str, Any] = {"user": "u", "item": "i", "type": "purchase"}


def read(document: Any) -> Intake[TypedEvent]:
    return read_events(Body(json.dumps(document).encode()), NOW_S, DEFAULT_TYPES)


def test_one_object_is_one_event_with_defaults() -> None:
    assert read(GOOD).accepted == [TypedEvent("u", "i", "purchase", 1.0, NOW_S, None)]


def test_an_array_is_decoded_as_its_elements_are() -> None:
    full = GOOD | {"value": 2, "timestamp": 12, "event_id": "order-1"}
    assert read([full, GOOD]).accepted == [*read(full).accepted, *read(GOOD).accepted]
    assert read([full]).accepted == [TypedEvent("u", "i", "purchase", 2.0, 12.0, "order-1")]


SCALE = "expected a number from -1e+06 to 1e+06, got"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "type: of another service": (
        {"type": "buy"},
        "Invalid type: expected one of the setting events (view, cart, purchase, dislike, impression), got 'buy'",
    ),
    "type: too long": ({"type": "x" * 33}, "Invalid type: expected text of at most 32 characters"),
    "type: none": ({"type": None}, "Invalid type: expected text, got nothing"),
    "value: NaN": ({"value": math.nan}, f"Invalid value: {SCALE} nan"),
    "value: infinite": ({"value": -math.inf}, f"Invalid value: {SCALE} -inf"),
    "value: absurd": ({"value": 1e7}, f"Invalid value: {SCALE} 10000000.0"),
    "value: huge integer": ({"value": 10**400}, f"Invalid value: {SCALE} 1000"),
    "value: text": ({"value": "3"}, "Invalid value: expected a number, got text"),
    "value: true": ({"value": True}, "Invalid value: expected a number, got true or false"),
    "timestamp: milliseconds": (
        {"timestamp": 1700000000000},
        "Invalid timestamp: expected Unix seconds, got 1700000000000; divide milliseconds by 1,000",
    ),
    "timestamp: negative": ({"timestamp": -5}, "Invalid timestamp: expected Unix seconds from 0 on, got -5"),
    "timestamp: NaN": ({"timestamp": math.nan}, "Invalid timestamp: expected Unix seconds from 0 on, got nan"),
    "timestamp: text": ({"timestamp": "now"}, "Invalid timestamp: expected Unix seconds, or a date or datetime"),
    "event_id: empty": ({"event_id": ""}, "Invalid event_id: expected text of at least 1 character"),
    "event_id: too long": ({"event_id": "x" * 129}, "Invalid event_id: expected text of at most 128 characters"),
    "event_id: too many bytes": ({"event_id": "日" * 128}, "Invalid event_id: expected 1 to 256 bytes, got 384"),
    "event_id: number": ({"event_id": 7}, "Invalid event_id: expected text, got a whole number"),
    "event_id: lone surrogate": ({"event_id": "\ud800"}, "Invalid event_id: expected text that UTF-8 can express"),
    "user: empty": ({"user": ""}, "Invalid user: expected text of at least 1 character"),
    "item: too many bytes": ({"item": "é" * 129}, "Invalid item: expected 1 to 256 bytes, got 258"),
    "unknown field": ({"rating": 5}, "Invalid event object: expected no field rating"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_element_gets_one_clear_reason(name: str) -> None:
    change, reason = BAD[name]
    intake = read([GOOD, GOOD | change, GOOD])
    assert len(intake.accepted) == 2
    assert [rejection.index for rejection in intake.rejected] == [1]
    assert intake.rejected[0].error.startswith(reason)
    with pytest.raises(InvalidRequest) as alone:
        read(GOOD | change)
    assert str(alone.value) == intake.rejected[0].error


@pytest.mark.parametrize("missing", GOOD)
def test_a_missing_field_is_named(missing: str) -> None:
    rejected = read([{name: value for name, value in GOOD.items() if name != missing}]).rejected
    assert rejected[0].error == f"Invalid event object: expected a field {missing}, got none"


def test_too_many_events_and_no_json_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="at most 1,000 events, got 1,001"):
        read([GOOD] * 1001)
    with pytest.raises(MalformedBody):
        read_events(Body(b"[{"), NOW_S, DEFAULT_TYPES)


def test_whatever_is_accepted_can_be_read_from_the_stream() -> None:
    odd = GOOD | {"user": "é/ü", "item": "\x00", "event_id": "é" * 128, "timestamp": 1e11, "value": -1e6}
    accepted = read([odd]).accepted
    assert parse_entry(StreamId(1, 0), encode_events(accepted)).events == accepted
    assert msgspec.json.decode(encode_events(accepted)[b"events"])[0]["event_id"] == "é" * 128


def test_each_line_may_be_an_event_and_its_time_a_date():
    lines = [{"user": "u", "item": "i", "type": "view", "timestamp": text} for text in ("1970-01-02", "soon")]
    intake = read_events(Body(b"\n".join(json.dumps(line).encode() for line in lines), True), NOW_S, DEFAULT_TYPES)
    assert [event.timestamp for event in intake.accepted] == [86400.0]
    assert [(one.line, one.error[:52]) for one in intake.rejected] == [
        (2, "Invalid timestamp: expected Unix seconds, or a date ")
    ]
