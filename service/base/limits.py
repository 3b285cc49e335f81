"""Limits that requests, settings and the stream share."""

from __future__ import annotations

MAX_RATING = 1e6  # largest absolute value of a rating
LATEST_S = 1e11  # Unix seconds, the year 5138; larger numbers are milliseconds
