"""The setting `rating_scale`: the lowest and the highest rating that the service accepts."""

from __future__ import annotations

from typing import Any

from service.base.limits import MAX_RATING

Scale = tuple[float, float]


def parse_scale(value: Any) -> Any:
    """The two numbers of "MIN,MAX"; any other type as it is. Raises `ValueError` for another text."""
    if not isinstance(value, str):
        return value
    try:
        low, high = map(float, value.split(","))
    except ValueError:
        raise ValueError(f"Invalid rating_scale: expected MIN,MAX, got {value!r}") from None
    return low, high


def check_scale(value: Scale | None) -> Scale | None:
    """The scale, if it is none or has a width; else `ValueError`."""
    if value is not None and not -MAX_RATING <= value[0] < value[1] <= MAX_RATING:
        raise ValueError(
            f"Invalid rating_scale: expected MIN,MAX with {-MAX_RATING:g} <= MIN < MAX <= {MAX_RATING:g},"
            f" got {value[0]:g},{value[1]:g}"
        )
    return value
