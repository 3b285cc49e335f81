"""Parses typed events from the body of a request. Each element is checked alone; a refused one gets a reason."""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection
from functools import partial
from typing import Any

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
    if events is not None and {event.type for event in events}.issubset(types):
        # The decoder has checked types, numbers and lengths in characters. Ids in ASCII are as long in bytes.
        is_plain = body.content.isascii() and b"\\" not in body.content
        if is_plain or all(are_ids(event.user, event.item, event.event_id or "-") for event in events):
            try:
                for event in events:
                    if event.recommendation_id is not None:
                        ids.verified(event.recommendation_id, event.user)
            except ValueError:
                pass
            else:
                return Intake([dated(event, now_s) for event in events], [])
    # At least one element is bad or has a timestamp that is text, or the whole body is bad.
    return read_elements(body, lambda element: event_of(with_seconds(element), now_s, types, ids), max_events, "events")


def event_of(element: Any, now_s: float, types: Collection[str], ids: RecommendationIds) -> TypedEvent:
    """Convert `element` to an event; ValueError with the reason if it is refused."""
    # Numbers out of range, before types are checked: the message then has the range and the number.
    bounds = ("value", -MAX_RATING, MAX_RATING), ("timestamp", 0, LATEST_EVENT_S)
    for name, low, high in bounds if isinstance(element, dict) else ():
        number = element.get(name)
        if isinstance(number, bool) or not isinstance(number, int | float) or low <= number <= high:
            continue
        if name == "value":
            raise ValueError(f"Invalid value: expected a number from {low:g} to {high:g}, got {number}")
        wrong = IN_MILLISECONDS if number > high else "expected Unix seconds from 0 on, got {}"
        raise ValueError(f"Invalid timestamp: {wrong.format(number)}")
    event = converted(element, TypedEvent, "event object")
    check_ids(user=event.user, item=event.item)
    if event.event_id is not None:
        check_ids(event_id=event.event_id)
    if event.recommendation_id is not None:
        ids.verified(event.recommendation_id, event.user)
    if event.type not in types:
        shown = event.type[:MAX_SHOWN]
        raise ValueError(f"Invalid type: expected one of the setting events ({', '.join(types)}), got {shown!r}")
    return dated(event, now_s)


def dated(event: TypedEvent, now_s: float) -> TypedEvent:
    """The event, with the present time if it has none."""
    if math.isnan(event.timestamp):
        msgspec.structs.force_setattr(event, "timestamp", now_s)  # safe: no other code has a reference yet
    return event
