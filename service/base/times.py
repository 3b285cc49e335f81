"""Reads dates and datetimes of ISO 8601 as Unix seconds, for bodies of requests and files."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

# The extended format alone: digits without hyphens would be taken for a number by people, and for a date by Python.
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
MAX_SHOWN = 80  # characters of a text in a message
IN_MILLISECONDS = "expected Unix seconds, got {}; divide milliseconds by 1,000"  # of a time beyond any in seconds


def unix_seconds(text: str) -> float:
    """The Unix seconds of an ISO 8601 date (its first moment) or datetime; UTC if it has no offset.

    Microseconds count, and further digits are dropped.

    Raises:
        ValueError: it is neither; the message has no name of the value.
    """
    try:
        if not _ISO.fullmatch(text):
            raise ValueError
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"expected Unix seconds, or a date or datetime such as 2023-11-14T22:13:20Z, got {text[:MAX_SHOWN]!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def iso_of(seconds: float) -> str:
    """Unix seconds as a datetime of ISO 8601 in UTC, to the second below."""
    return datetime.fromtimestamp(math.floor(seconds), UTC).isoformat().replace("+00:00", "Z")
