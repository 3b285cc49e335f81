"""Parses ratings from the body of a request. Each element is checked alone; a refused one gets a reason."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from service.api.parsers.elements import Body, Intake, Typed, are_ids, check_ids, converted, read_elements, with_seconds
from service.base.limits import MAX_RATING
from service.base.times import IN_MILLISECONDS
from service.storage.events import LATEST_EVENT_S, RatingEvent

Scale = tuple[float, float]
ANY_SCALE: Scale = (-MAX_RATING, MAX_RATING)

_typed = Typed(RatingEvent)


def read_ratings(body: Body, now_s: float, scale: Scale = ANY_SCALE, max_ratings: int = 1000) -> Intake[RatingEvent]:
    """The ratings in `body`: one object, an array of them, or one in each line. Raises what `read_elements` raises.

    Args:
        body: the body.
        now_s: Unix seconds; the timestamp of ratings that have none.
        scale: lowest and highest acceptable rating.
        max_ratings: longest acceptable array, and most acceptable lines.
    """
    low, high = scale
    ratings = _typed.decoded(body, max_ratings)
    # The decoder has checked types and lengths in characters.
    for rating in ratings or ():
        value = rating.rating
        if value is None or not low <= value <= high or rating.timestamp > LATEST_EVENT_S:
            ratings = None
            break
        if not (rating.user.isascii() and rating.item.isascii()) and not are_ids(rating.user, rating.item):
            ratings = None
            break
    if ratings is not None:
        return Intake([dated(rating, now_s) for rating in ratings], [])
    # At least one element is bad or has a timestamp that is text, or the whole body is bad.
    return read_elements(body, lambda element: rating_of(element, now_s, scale), max_ratings, "ratings")


def rating_of(element: Any, now_s: float, scale: Scale) -> RatingEvent:
    """Convert `element` to a rating; ValueError with the reason if it is refused."""
    # A rating off the scale, before types are checked: the message then has the scale and the number.
    value = element.get("rating", scale[0]) if isinstance(element, dict) else scale[0]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or (is_number and not scale[0] <= value <= scale[1]):
        raise ValueError(f"Invalid rating: expected a number from {scale[0]:g} to {scale[1]:g}, got {value}")
    rating = converted(with_seconds(element), RatingEvent, "rating object")
    check_ids(user=rating.user, item=rating.item)
    if isinstance(element.get("timestamp"), float) and not math.isfinite(rating.timestamp):
        raise ValueError(f"Invalid timestamp: expected finite Unix seconds, got {rating.timestamp}")
    if rating.timestamp > LATEST_EVENT_S:
        raise ValueError(f"Invalid timestamp: {IN_MILLISECONDS.format(element['timestamp'])}")
    return dated(rating, now_s)


def dated(rating: RatingEvent, now_s: float) -> RatingEvent:
    """The rating, with the present time if it has none."""
    if not math.isfinite(rating.timestamp):
        msgspec.structs.force_setattr(rating, "timestamp", now_s)  # safe: no other code has a reference yet
    return rating
