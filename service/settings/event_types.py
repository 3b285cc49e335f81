"""Types of events and their weights, as the setting `events` names them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping

EventTypes = Mapping[str, float]  # weight of each type

SEEN = "seen"  # in place of a weight: events of the type only keep the item out of the user's lists; a weight of 0
DEFAULT = "view=1,cart=3,purchase=10,dislike=-2,impression=seen"
MAX_WEIGHT = 1000.0
MAX_TYPE_LENGTH = 32
_NAME = re.compile(rf"[a-z][a-z0-9_-]{{0,{MAX_TYPE_LENGTH - 1}}}", re.ASCII)


def parse_event_types(text: str) -> dict[str, float]:
    """The types in `text`, such as `DEFAULT`.

    Raises:
        ValueError: a name or a weight is not one, or a name occurs twice.
    """
    types: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = (text.strip() for text in part.partition("="))
        if not _NAME.fullmatch(name) or name in types:
            raise ValueError(
                "Invalid events: expected NAME=WEIGHT,… with different names of lower-case letters, digits, - and _,"
                f" got {part.strip()!r}"
            )
        types[name] = math.nan
        with contextlib.suppress(ValueError):
            types[name] = 0.0 if weight == SEEN else float(weight)
        if not abs(types[name]) <= MAX_WEIGHT:  # also for NaN
            raise ValueError(
                f"Invalid weight of {name} in events: expected {SEEN} or a number from {-MAX_WEIGHT:g} to"
                f" {MAX_WEIGHT:g}, got {weight!r}"
            )
    return types


DEFAULT_TYPES: EventTypes = parse_event_types(DEFAULT)
