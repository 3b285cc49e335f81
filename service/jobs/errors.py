"""Errors of jobs. The families are in `service.base.errors`."""

from __future__ import annotations

from service.base.errors import Conflict, NotFound, TooManyRequests


class UnknownJob(NotFound):
    """No job has that id."""

    slug, title = "unknown-job", "Unknown job"


class JobQueued(Conflict):
    """A training of the same model is queued and has not begun.

    Attributes:
        job_id: the queued job.
    """

    slug, title = "job-queued", "A job is queued already"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"A training of this model is queued already (job {job_id}): wait for it or cancel it")
        self.job_id = job_id


class NoMinutesLeft(TooManyRequests):
    """Trainings have taken as many minutes within 24 hours as they may."""

    slug, title, closes = "no-minutes-left", "No training minutes left", False
