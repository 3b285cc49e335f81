"""Types of events and their weights, as the setting `events` names them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence

EventTypes = Mapping[str, float]  # weight of each type

SEEN = "seen"  # in place of a weight: events of the type only keep the item out of the user's lists; a weight of 0
DEFAULT = "view=1,cart=3,purchase=10,dislike=-2,impression=seen"
MAX_WEIGHT = 1000.0
MAX_TYPE_LENGTH = 32
MAX_TYPES = 32  # the types of a pair are bits of one number
RATING = "rating"  # among types that a list leaves out: what the user rated
_NAME = re.compile(rf"[a-z][a-z0-9_-]{{0,{MAX_TYPE_LENGTH - 1}}}", re.ASCII)


def parse_event_types(text: str) -> dict[str, float]:
    """The types in `text`, such as `DEFAULT`.

    Raises:
        ValueError: a name or a weight is not one, a name occurs twice, or there are too many.
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
    if len(types) > MAX_TYPES:
        raise ValueError(f"Invalid events: expected at most {MAX_TYPES} types, got {len(types)}")
    return types


def text_of(types: EventTypes) -> str:
    """The text that `parse_event_types` reads as these types."""
    return ",".join(f"{name}={f'{weight:g}' if weight else SEEN}" for name, weight in types.items())


def check_seen(named: Sequence[str], types: EventTypes) -> None:
    """Check names of types, of which `RATING` may be one.

    Raises:
        ValueError: there is no such type.
    """
    known = dict.fromkeys([RATING, *types])
    for name in named:
        if name not in known:
            raise ValueError(f"Invalid seen_types: expected some of {', '.join(known)}, got {name!r}")


DEFAULT_TYPES: EventTypes = parse_event_types(DEFAULT)
