"""Finds the columns of user, item, rating and timestamp in a file, by name if it has a header, else by position."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

NAMES = ("user", "item", "rating", "timestamp")
N_NEEDED = 2  # without ratings every pair counts 1; the timestamp may be missing too
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
    """Positions of user, item and, if present, rating and timestamp among columns named `given`.

    Raises:
        ValueError: user or item is missing; or rating, though another column may be the rating under a name of its
            own; or one of the four occurs twice.
    """
    found = columns_named(given)
    shown = ", ".join(name.strip()[:40] for name in given[:_N_SHOWN])
    needed = NAMES[:N_NEEDED] if _n_named(given) == sum(map(len, found.values())) else NAMES[: N_NEEDED + 1]
    if missing := [name for name in needed if name not in found]:
        hint = "; without such columns every pair counts 1" if missing == ["rating"] else ""
        raise ValueError(
            f"expected columns user, item and rating, found no {' and no '.join(missing)} among {shown}{hint}"
        )
    if twice := [name for name, places in found.items() if len(places) > 1]:
        raise ValueError(f"expected one column {twice[0]}, got several among {shown}")
    return {name: places[0] for name, places in found.items()}


def described(columns: Mapping[str, int], given: Sequence[str] | None) -> str:
    """The meaning of the columns in one line; `given` are the names in the file, None if it has no header."""
    names = [f"column {position + 1}" for position in range(len(columns))] if given is None else given
    text = "columns: " + ", ".join(f"{name} = {names[position].strip()}" for name, position in columns.items())
    unused = [name.strip() for position, name in enumerate(names) if position not in columns.values() and name.strip()]
    text += f"; not used: {', '.join(unused[:_N_SHOWN])}" if unused else ""
    return text + ("" if "rating" in columns else "; no ratings: every pair counts 1")


def _n_named(given: Sequence[str]) -> int:
    return sum(1 for name in given if name.strip())
