"""`/console/jobs` and `/console/job`: what trains, forgets and lists, how far it is, and why it failed."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheService
from service.api.door.audit import concern
from service.api.operations import CancelJob, GetJob, ListJobs
from service.api.serving import Serving
from service.extras.console.pages import page, to
from service.extras.console.visit import console_router
from service.jobs import jobs as service_jobs

ENDED = ("succeeded", "failed", "cancelled")
STOP_POLLING = 286  # status by which htmx knows that nothing will change any more

router = console_router()


class Job(service_jobs.Job):
    """A job, and what its pages ask of it."""

    @property
    def has_ended(self) -> bool:
        """Whether it changes no more."""
        return self.state in ENDED


@router.get("/jobs")
async def get_jobs(request: Request, serving: TheService) -> Response:
    """All jobs."""
    return page(request, "jobs.html", jobs=await jobs_of(serving))


@router.get("/jobs-now")
async def get_rows(request: Request, serving: TheService) -> Response:
    """The table alone."""
    return page(request, "jobs-now.html", jobs=await jobs_of(serving))


@router.get("/job")
async def get_job(request: Request, serving: TheService, id: str) -> Response:
    """One job."""
    return page(request, "job.html", job=await job_of(serving, id))


@router.get("/job-now")
async def get_state(request: Request, serving: TheService, id: str) -> Response:
    """The state of one job alone."""
    job = await job_of(serving, id)
    return page(request, "job-now.html", STOP_POLLING if job.has_ended else 200, job=job)


@router.post("/cancel")
async def cancel(request: Request, serving: TheService) -> Response:
    """Stop a job."""
    job = request.state.form.get("job", "")
    concern(f"job {job}")
    await serving.operate(CancelJob(job))
    return to("job", id=job)


async def jobs_of(serving: Serving) -> list[Job]:
    """All jobs, newest first."""
    return msgspec.json.decode(await serving.operate(ListJobs()), type=dict[str, list[Job]])["jobs"]


async def job_of(serving: Serving, job: str) -> Job:
    """One job, by its id."""
    return msgspec.json.decode(await serving.operate(GetJob(job)), type=Job)
