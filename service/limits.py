"""Limits that requests, settings and the stream share."""

from __future__ import annotations

MAX_RATING = 1e6  # largest absolute value of a rating
