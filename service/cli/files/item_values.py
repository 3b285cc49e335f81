"""Values in files of items, as POST /items takes them; ValueError with the reason if it cannot."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from typing import Any

from service.cli.files.ratings_times import is_in_milliseconds, seconds_of, wrong_time

NO_GENRES = "(no genres listed)"  # of MovieLens
SEPARATOR = "|"
TRUTH = dict.fromkeys(("true", "t", "1", "yes", "y"), True) | dict.fromkeys(("false", "f", "0", "no", "n"), False)
TIMES = ("published", "until")
EXCERPT = 80  # characters of a value in a message


def id_of(value: Any) -> str:
    """The id of an item: text, or an integer."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError(f"expected text or an integer, got {str(value)[:EXCERPT]!r}")
    return str(value)


def tags_of(value: Any) -> list[str]:
    """The tags in text with | between, in a list, or in another single value."""
    if isinstance(value, str):
        return [] if value == NO_GENRES else [tag for tag in value.split(SEPARATOR) if tag]
    tags = [tag for tag in value if tag is not None] if isinstance(value, list) else [value]
    for tag in tags:
        if isinstance(tag, bytes | list | dict):
            raise ValueError(f"expected text, got {str(tag)[:EXCERPT]!r}")
    return list(map(str, tags))


def text_of(value: Any) -> str:
    """Text for people: one line, without spaces around."""
    if isinstance(value, bytes | list | dict):
        raise ValueError(f"expected text, got {str(value)[:EXCERPT]!r}")
    return " ".join(str(value).split())


def number_of(value: Any) -> float:
    """A finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {str(value)[:EXCERPT]!r}")
    return number


def flag_of(value: Any) -> bool:
    """A truth value, or a word for one."""
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() not in TRUTH:
        raise ValueError(f"expected true or false, got {str(value)[:EXCERPT]!r}")
    return TRUTH[str(value).strip().lower()]


def time_of(value: Any, per_second: float) -> float:
    """Unix seconds of a date, a datetime, or a number; a second has `per_second` of its units."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=value.tzinfo or datetime.UTC).timestamp()
    if isinstance(value, datetime.date | str):
        return seconds_of(str(value), per_second)
    seconds = number_of(value) / per_second
    if is_in_milliseconds(seconds):
        raise ValueError(wrong_time(str(value)[:EXCERPT]))
    return seconds


def numbers_of(value: Any) -> list[float]:
    """The numbers of an embedding."""
    if not isinstance(value, list):
        raise ValueError(f"expected a list of numbers, got {str(value)[:EXCERPT]!r}")
    return list(map(number_of, value))


# What reads the values of each attribute but times; of `tags` and `numbers` those of one name.
READERS: dict[str, Callable[[Any], Any]] = {
    "item": id_of,
    "tags": tags_of,
    "numbers": number_of,
    "available": flag_of,
    "embedding": numbers_of,
    "title": text_of,
    "url": text_of,
    "image": text_of,
}
