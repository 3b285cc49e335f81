"""Errors of jobs. The families are in `service.base.errors`."""

from __future__ import annotations

from service.base.errors import Conflict, NotFound


class UnknownJob(NotFound):
    """No job has that id."""

    slug, title = "unknown-job", "Unknown job"


class JobRunning(Conflict):
    """A retrain is queued or running.

    Attributes:
        job_id: the unfinished job.
    """

    slug, title = "job-running", "A job is already running"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"A retrain is already running (job {job_id}): wait for it or cancel it")
        self.job_id = job_id
