"""Half-lives of popularity, as the setting `half_lives` names them."""

from __future__ import annotations

import re

DEFAULT = "1d,7d,30d"
MAX_HALF_LIVES = 8  # each one counts every change
MAX_SHOWN = 80  # characters of a text in a message
_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}
_NAME = re.compile(r"([1-9][0-9]{0,3})([mhd])", re.ASCII)


def seconds_of(text: str) -> float:
    """The seconds of a half-life such as 6h.

    Raises:
        ValueError: it is not a number and a unit; the message has no name of the value.
    """
    match = _NAME.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a number up to 9999 and m, h or d, such as 6h, got {text[:MAX_SHOWN]!r}")
    return float(match[1]) * _SECONDS[match[2]]


def parse_half_lives(text: str) -> dict[str, float]:
    """Seconds of each half-life in `text`, by its name; the first one is that of trends.

    Raises:
        ValueError: a name is not a number and a unit, or there are none or too many.
    """
    names = [name.strip() for name in text.split(",")]
    seconds = {name: float(match[1]) * _SECONDS[match[2]] for name in names if (match := _NAME.fullmatch(name))}
    if len(seconds) != len(names) or len(seconds) > MAX_HALF_LIVES:
        raise ValueError(
            f"Invalid half_lives: expected 1 to {MAX_HALF_LIVES} different ones, comma-separated, each a number up to"
            f" 9999 and m, h or d, got {text!r}"
        )
    return seconds


DEFAULT_HALF_LIVES = parse_half_lives(DEFAULT)
