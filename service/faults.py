"""What pydantic found wrong with a value, in words for whoever gave it: on the command line and in a request."""

from __future__ import annotations

from typing import Any

MOST_SHOWN = 80  # characters of a value
TOLD_BY_PLACE = ("extra_forbidden", "missing")


def reason_of(fault: Any) -> str:
    """What was expected, and what was given instead where that is one value and not named by its place already.

    Args:
        fault: one of `ValidationError.errors()`.
    """
    reason, given = str(fault["msg"]).removeprefix("Value error, "), fault["input"]
    is_told = "got" in reason or fault["type"] in TOLD_BY_PLACE or not isinstance(given, str | int | float | None)
    return reason if is_told else f"{reason}, got {repr(given)[:MOST_SHOWN]}"
