"""Parses typed events from the body of a request. Each element is checked alone; a refused one gets a reason."""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection
from functools import partial
from typing import Any, TypeGuard

import msgspec

from service.api.parsers.elements import Body, Intake, Typed, are_ids, check_ids, converted, read_elements, with_seconds
from service.base.limits import MAX_RATING
from service.base.recommendation_ids import RecommendationIds
from service.base.signing import KEY_BYTES, Signer
from service.base.times import IN_MILLISECONDS
from service.base.validation import MAX_SHOWN
from service.storage.events import LATEST_EVENT_S, TypedEvent

_typed = Typed(TypedEvent)
NO_KEY = RecommendationIds(Signer(partial(secrets.token_bytes, KEY_BYTES)))  # verifies none


def read_events(
    body: Body, now_s: float, types: Collection[str], max_events: int = 1000, ids: RecommendationIds = NO_KEY
) -> Intake[TypedEvent]:
    """The events in `body`: one object, an array of them, or one in each line. Raises what `read_elements` raises.

    Args:
        body: the body.
        now_s: Unix seconds; the timestamp of events that have none.
        types: the types that are accepted.
        max_events: longest acceptable array, and most acceptable lines.
        ids: verifies recommendation ids.
    """
    events = _typed.decoded(body, max_events)
    if events is not None:
        content = body.content
        is_plain = (
            content.isascii() and b"\\" not in content
        )  # then each id is ASCII, and its length is checked already
        if _all_good(events, types, is_plain=is_plain) and _all_ours(events, ids):
            return Intake([_dated(event, now_s) for event in events], [])
    # At least one element is bad or has a timestamp that is text, or the whole body is bad.
    return read_elements(body, lambda element: _judge(with_seconds(element), now_s, types, ids), max_events, "events")


def _judge(element: Any, now_s: float, types: Collection[str], ids: RecommendationIds) -> TypedEvent:
    """Convert `element` to an event; ValueError with the reason if it is refused."""
    _check_numbers(element)
    event = converted(element, TypedEvent, "event object")
    check_ids(user=event.user, item=event.item)
    if event.event_id is not None:
        check_ids(event_id=event.event_id)
    if event.recommendation_id is not None:
        ids.verified(event.recommendation_id, event.user)
    if event.type not in types:
        shown = event.type[:MAX_SHOWN]
        raise ValueError(f"Invalid type: expected one of the setting events ({', '.join(types)}), got {shown!r}")
    return _dated(event, now_s)


def _check_numbers(element: Any) -> None:
    """Refuse numbers out of range, before types are checked: the message then has the range and the number."""
    value, timestamp = (element.get(name) if isinstance(element, dict) else None for name in ("value", "timestamp"))
    if _is_number(value) and not -MAX_RATING <= value <= MAX_RATING:
        raise ValueError(f"Invalid value: expected a number from {-MAX_RATING:g} to {MAX_RATING:g}, got {value}")
    if _is_number(timestamp) and not 0 <= timestamp <= LATEST_EVENT_S:
        wrong = IN_MILLISECONDS if timestamp > LATEST_EVENT_S else "expected Unix seconds from 0 on, got {}"
        raise ValueError(f"Invalid timestamp: {wrong.format(timestamp)}")


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _all_good(events: list[TypedEvent], types: Collection[str], *, is_plain: bool) -> bool:
    """Whether all decoded events are acceptable; the decoder has already checked types, numbers and lengths."""
    if not {event.type for event in events}.issubset(types):
        return False
    return is_plain or all(are_ids(event.user, event.item, event.event_id or "-") for event in events)


def _all_ours(events: list[TypedEvent], ids: RecommendationIds) -> bool:
    """Whether all recommendation ids are those of this service."""
    try:
        for event in events:
            if event.recommendation_id is not None:
                ids.verified(event.recommendation_id, event.user)
    except ValueError:
        return False
    return True


def _dated(event: TypedEvent, now_s: float) -> TypedEvent:
    if math.isnan(event.timestamp):
        msgspec.structs.force_setattr(event, "timestamp", now_s)  # safe: no other code has a reference yet
    return event
