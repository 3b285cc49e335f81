"""Errors of jobs. The families are in `service.base.errors`."""

from __future__ import annotations

from service.base.errors import NotFound, TooManyRequests


class UnknownJob(NotFound):
    """No job has that id."""

    slug, title = "unknown-job", "Unknown job"


class NoMinutesLeft(TooManyRequests):
    """Trainings have taken as many minutes within 24 hours as they may."""

    slug, title, closes = "no-minutes-left", "No training minutes left", False
