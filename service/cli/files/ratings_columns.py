"""Finds the columns of user, item, rating and timestamp: as the caller chose, by name, or by position."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from service.settings.errors import InvalidSetting

NAMES = ("user", "item", "rating", "timestamp")
EVENT_NAMES = ("user", "item", "type", "value", "timestamp", "event_id")
N_NEEDED_OF_EVENTS = 3
N_NEEDED = 2  # without ratings every pair counts 1; the timestamp may be missing too
MATRIX = "items"  # as choice of columns: every column of a matrix is an item
_NOT_USED = "-"
_N_SHOWN = 10

_USERS = ("customer", "visitor", "member", "reviewer")
_ITEMS = ("movie", "book", "product", "artist", "track", "song", "article", "video", "game", "anime")
# Names in published data sets, in lower-case letters and digits only. An earlier group takes precedence: the id of
# something is unique, its name may be that of another one too.
_ALIASES = {
    "user": (("userid",), ("user",), tuple(f"{who}id" for who in _USERS), _USERS),
    "item": (
        ("itemid",),
        ("item",),
        tuple(f"{what}id" for what in _ITEMS),
        ("parentasin",),
        ("businessid", "asin", "isbn"),
        _ITEMS,
    ),
    "rating": (
        ("rating", "ratings"),
        ("score", "stars", "overall", "bookrating"),
        ("value", "weight", "count", "plays"),
    ),
    "timestamp": (
        ("timestamp", "unixtime", "unixreviewtime"),
        ("time", "datetime", "date", "createdat", "ratedat", "ts"),
    ),
}
_ALL_ALIASES = frozenset(alias for groups in _ALIASES.values() for group in groups for alias in group)
# Columns that tell what a user did: a dislike is no rating of 1.
_TYPE = re.compile(
    r"type|verb|(user)?(event|feedback|action|interaction|activity|behav[a-z]*r|reaction|signal)"
    r"(s|types?|names?|kind|category|label|class|code)?"
)


class Choice(NamedTuple):
    """The columns that the caller chose.

    Attributes:
        places: meaning → name in the header, or position; empty: every column is an item (`MATRIX`).
        n_columns: of each line, if the columns are chosen by position.
        is_partial: whether other columns are found by their names; else they are not used.
    """

    places: dict[str, str | int]
    n_columns: int | None = None
    is_partial: bool = False

    @property
    def has_names(self) -> bool:
        """Whether the columns are chosen by their names in a header."""
        return self.n_columns is None and bool(self.places)

    @classmethod
    def of(cls, text: str, meanings: Sequence[str] = NAMES, n_needed: int = N_NEEDED) -> Choice:
        """The choice in `user=NAME,item=NAME[,rating=NAME][,timestamp=NAME]`, `user,item,-,rating` or `items`.

        Args:
            text: the choice.
            meanings: that columns may have; the first `n_needed` of them are needed.

        Raises:
            InvalidSetting: it is none of these.
        """
        parts = [part.strip() for part in text.split(",")]
        if parts == [MATRIX]:
            return cls({})
        pairs = [part.partition("=") for part in parts]
        names = [("timestamp" if name.strip() == "time" else name.strip()) for name, _, _ in pairs]
        used = [name for name in names if name != _NOT_USED]
        has_names = all(column.strip() for _, _, column in pairs) and _NOT_USED not in names
        is_usable = set(meanings[:n_needed]) <= set(used) <= set(meanings) and len(set(used)) == len(used)
        wanted = ",".join(
            f"{name}=NAME" if name in meanings[:n_needed] else f"[{name}=NAME]" for name in meanings
        ).replace(",[", "[,")
        if not is_usable or not (has_names or not any(equals for _, equals, _ in pairs)):
            raise InvalidSetting(
                f"Invalid columns: expected {wanted} for names in a header; or all columns in their order, such as"
                f" user,item,-,{meanings[2]}, with - for one that is not used; or {MATRIX} for a matrix, got {text!r}"
            )
        if has_names:
            return cls({name: column.strip() for name, (_, _, column) in zip(names, pairs, strict=True)})
        return cls({name: place for place, name in enumerate(names) if name != _NOT_USED}, len(names))


def plain(name: str) -> str:
    """A name of a column in lower-case letters and digits only, without a type as RecBole has it (`user_id:token`)."""
    return re.sub(r":(token|float)(_seq)?$|[^a-z0-9]", "", name.strip().lower())


def is_alias(text: str) -> bool:
    """Whether a header may have this as the name of a column with a meaning."""
    return plain(text) in _ALL_ALIASES


def columns_named(names: Sequence[str]) -> dict[str, list[int]]:
    """Positions of user, item, rating and timestamp among columns named `names`; missing ones are left out.

    Several positions: the names do not tell which of these columns is meant.
    """
    plain_names = [plain(name) for name in names]
    positions = {}
    for name, groups in _ALIASES.items():
        places_of_groups = ([n for n, name_here in enumerate(plain_names) if name_here in group] for group in groups)
        if places := next(filter(None, places_of_groups), None):
            positions[name] = places
    return positions


def is_header(fields: Sequence[str]) -> bool:
    """Whether a line has no number and names at least two columns: a single name may be an id."""
    for field in filter(None, fields):
        with contextlib.suppress(ValueError):
            float(field)  # NaN is one too, and no name in a header
            return False
    return len(columns_named(fields)) > 1


def columns_of(header: Sequence[str], choice: Choice | None = None) -> dict[str, int]:
    """Positions of user, item and, if present, rating and timestamp among the columns of a header.

    Raises:
        ValueError: user or item is missing; or rating, though another column may be the rating under a name of its
            own; or the names do not tell which column is meant; or a column holds types of events.
    """
    chosen = {} if choice is None else chosen_among(header, choice)
    if choice is not None and not choice.is_partial:
        return chosen
    header = ["" if place in chosen.values() else name for place, name in enumerate(header)]
    positions = {name: places for name, places in columns_named(header).items() if name not in chosen}
    if types := types_among(header):
        raise ValueError(
            f"expected ratings, got events: the column {header[types[0]].strip()} tells their type. Post them to"
            " /events by --events, which weighs each type; if it says nothing about the ratings, name the others by"
            f" {option_for(header, positions)}"
        )
    needed = (
        NAMES[:N_NEEDED]
        if len([*filter(str.strip, header)]) == sum(map(len, positions.values()))
        else NAMES[: N_NEEDED + 1]
    )
    if missing := [name for name in needed if name not in {**positions, **chosen}]:
        hint = "; without such columns every pair counts 1" if missing == ["rating"] else ""
        raise ValueError(
            f"expected columns user, item and rating, found no {' and no '.join(missing)} among {_shown(header)}{hint};"
            f" name the columns by {option_for(header, positions)}"
        )
    ambiguous = list(positions.items())
    # A name of users or items, beside which there are columns of other ids.
    for name in [name for name in NAMES[:N_NEEDED] if name in positions]:
        ids = {alias for group in _ALIASES[name] for alias in group if alias.endswith("id")}
        if plain(header[positions[name][0]]) not in ids:
            ambiguous.append((name, positions[name] + [n for n, other in enumerate(header) if plain(other) in ids]))
    for name, places in ambiguous:
        if len(places) > 1:
            several = " and ".join(header[place].strip() for place in places)
            raise ValueError(
                f"expected one column {name}, got several among {_shown(header)}: {several};"
                f" choose one by {option_for(header, positions | {name: places})}"
            )
    columns = chosen | {name: places[0] for name, places in positions.items()}
    return {name: columns[name] for name in NAMES if name in columns}


def chosen_among(header: Sequence[str], choice: Choice) -> dict[str, int]:
    """Positions of the columns that the caller chose; ValueError if the header does not have them."""
    if not choice.has_names:
        if choice.n_columns != len(header):
            wanted = f"{choice.n_columns} columns, as chosen" if choice.places else "a matrix, as --columns items says"
            raise ValueError(f"expected {wanted}, got the {len(header)} columns {_shown(header)}")
        return {name: int(place) for name, place in choice.places.items()}
    names = [name.strip() for name in header]
    for name, column in choice.places.items():
        if names.count(str(column)) != 1:
            raise ValueError(f"expected one column {column} ({name}, as chosen) among {_shown(header)}")
    return {name: names.index(str(column)) for name, column in choice.places.items()}


def described(columns: Mapping[str, int], header: Sequence[str] | None, n_columns: int | None = None) -> str:
    """The meaning of the columns in one line; `header` has the names in the file, None if it has none."""
    names = [f"column {place + 1}" for place in range(n_columns or len(columns))] if header is None else header
    text = "columns: " + ", ".join(f"{name} = {names[place].strip()}" for name, place in columns.items())
    unused = [name.strip() for place, name in enumerate(names) if place not in columns.values() and name.strip()]
    text += f"; not used: {', '.join(unused[:_N_SHOWN])}" if unused else ""
    return text + ("" if "rating" in columns else "; no ratings: every pair counts 1")


def types_among(names: Sequence[str]) -> list[int]:
    """Positions of the columns that hold types of events."""
    return [place for place, name in enumerate(names) if _TYPE.fullmatch(plain(name))]


def option_for(header: Sequence[str], positions: Mapping[str, list[int]]) -> str:
    """The option that says what the columns of a header mean, with the likeliest names (`columns_named`) filled in."""
    used = {place for places in positions.values() for place in places} | set(types_among(header))
    free = iter([name.strip() for place, name in enumerate(header) if place not in used and name.strip()])
    wanted = NAMES[: N_NEEDED + (len([*filter(str.strip, header)]) > N_NEEDED)]
    columns = {name: header[positions[name][0]].strip() if name in positions else next(free, "…") for name in wanted}
    return "--columns " + ",".join(f"{name}={column}" for name, column in columns.items())


def _shown(header: Sequence[str]) -> str:
    return ", ".join(name.strip()[:40] for name in header[:_N_SHOWN])
