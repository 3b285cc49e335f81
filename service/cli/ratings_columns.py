"""Finds the columns of user, item, rating and timestamp in a file, by name if it has a header, else by position."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from service.limits import LATEST_S

NAMES = ("user", "item", "rating", "timestamp")
N_NEEDED = 3  # the timestamp may be missing
_N_SHOWN = 10

_ITEMS = ("item", "movie", "book", "product", "artist", "track", "song", "article", "video", "game", "anime")
# Names in published data sets, in lower-case letters and digits only; an earlier alias takes precedence.
_ALIASES = {
    "user": tuple(f"{who}{id_}" for who in ("user", "customer", "visitor", "member", "reviewer") for id_ in ("", "id")),
    "item": (*(f"{what}{id_}" for what in _ITEMS for id_ in ("", "id")), "businessid", "asin", "parentasin", "isbn"),
    "rating": ("rating", "ratings", "score", "stars", "overall", "bookrating", "value", "weight", "count", "plays"),
    "timestamp": ("timestamp", "time", "unixtime", "unixreviewtime", "date"),
}


def columns_named(names: Sequence[str]) -> dict[str, list[int]]:
    """Positions of user, item, rating and timestamp among columns named `names`; missing ones are left out."""
    plain = [re.sub(r"[^a-z0-9]", "", name.lower().partition(":")[0]) for name in names]  # also user_id:token
    positions = {}
    for name, aliases in _ALIASES.items():
        alias = next((alias for alias in aliases if alias in plain), None)
        if alias is not None:
            positions[name] = [position for position, one in enumerate(plain) if one == alias]
    return positions


def columns_of(given: Sequence[str]) -> dict[str, int]:
    """Positions of user, item, rating and, if present, timestamp among columns named `given`.

    Raises:
        ValueError: one of the first three is missing, or one of the four occurs twice.
    """
    found = columns_named(given)
    shown = ", ".join(name.strip()[:40] for name in given[:_N_SHOWN])
    if missing := [name for name in NAMES[:N_NEEDED] if name not in found]:
        raise ValueError(f"expected columns user, item and rating, found no {' and no '.join(missing)} among {shown}")
    if twice := [name for name, places in found.items() if len(places) > 1]:
        raise ValueError(f"expected one column {twice[0]}, got several among {shown}")
    return {name: places[0] for name, places in found.items()}


def described(columns: Mapping[str, int], given: Sequence[str] | None) -> str:
    """The meaning of the columns in one line; `given` are the names in the file, None if it has no header."""
    if given is None:
        return ", ".join(f"column {position + 1} is the {name}" for name, position in columns.items()) + " (no header)"
    text = ", ".join(f"{given[position].strip()!r} is the {name}" for name, position in columns.items())
    unused = [name.strip() for position, name in enumerate(given) if position not in columns.values()]
    return text + (f"; not used: {', '.join(map(repr, unused[:_N_SHOWN]))}" if unused else "")


def is_in_milliseconds(timestamp: float) -> bool:
    """Whether a timestamp is too large for Unix seconds."""
    return abs(timestamp) > LATEST_S


def wrong_time(timestamp: object) -> str:
    """The reason for refusing a timestamp that is too large for Unix seconds."""
    return f"expected Unix seconds as timestamp, got {timestamp}; divide milliseconds by 1,000"
