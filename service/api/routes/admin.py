"""Operation of the service: training, models, hidden items, forgotten users."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from msgspec import Struct
from starlette.responses import Response

from service.api.dependencies import ItemId, PathName, TheRuntime, UserId, answers, reply
from service.api.schemas import NoParameters, Retrain, Wait, Written
from service.engine.model_swap import ModelInfo
from service.jobs.forget import REMAINS
from service.jobs.jobs import Job
from service.storage.events import encode_subject


class JobList(Struct):
    """All jobs in Redis."""

    jobs: list[Job]


class ModelList(Struct):
    """All snapshots on disk."""

    models: list[ModelInfo]


class Forgotten(Struct):
    """No answer after `stream_id` contains the user; `job` removes the data on disk; `note` says what remains."""

    stream_id: str
    job: str
    note: str


router = APIRouter(prefix="/admin", tags=["admin"])
NoQuery = Annotated[NoParameters, Query()]
WaitQuery = Annotated[Wait, Query()]


@router.post(
    "/retrain", status_code=202, responses=answers(Job, 202, "Queued", http_409="A job is already queued or running")
)
async def retrain(body: Retrain, query: NoQuery, runtime: TheRuntime) -> Response:
    """Train a model on every rating acknowledged so far; it goes live if it is good enough."""
    training = body.algorithm, body.params, body.activate, body.force, body.tune
    return reply(await runtime.blocking(runtime.jobs.submit_training, *training), 202)


@router.get("/jobs", responses=answers(JobList))
async def list_jobs(query: WaitQuery, runtime: TheRuntime) -> Response:
    """All jobs, newest first."""
    await runtime.wait_for(query.position)
    return reply(JobList(await runtime.blocking(runtime.jobs.list)))


@router.get("/jobs/{job}", responses=answers(Job, http_404="Unknown job"))
async def get_job(job: PathName, query: WaitQuery, runtime: TheRuntime) -> Response:
    """One job."""
    await runtime.wait_for(query.position)
    return reply(await runtime.blocking(runtime.jobs.get, job))


@router.delete("/jobs/{job}", status_code=202, responses=answers(Job, 202, "The job will stop", http_404="Unknown job"))
async def cancel_job(job: PathName, query: NoQuery, runtime: TheRuntime) -> Response:
    """Stop a queued or running job. A finished job does not change."""
    return reply(await runtime.blocking(runtime.jobs.cancel, job), 202)


@router.get("/models", responses=answers(ModelList))
async def list_models(query: WaitQuery, runtime: TheRuntime) -> Response:
    """All snapshots, and which of them are live."""
    await runtime.wait_for(query.position)
    return reply(ModelList(await runtime.blocking(runtime.hotswap.models)))


@router.post(
    "/models/{version}/activate",
    status_code=202,
    responses=answers(ModelInfo, 202, "Being loaded", http_404="Unknown version"),
)
async def activate_model(version: PathName, query: NoQuery, runtime: TheRuntime) -> Response:
    """Make a snapshot live under its name, without comparing it with the live one. Use it to roll back."""
    return reply(await runtime.blocking(runtime.hotswap.activate, version), 202)


@router.put("/items/{item}/hidden", status_code=202, responses=answers(Written, 202, "Durable"))
async def hide_item(item: ItemId, query: NoQuery, runtime: TheRuntime) -> Response:
    """Never recommend this item again; it still counts for learning."""
    return reply(Written(str(await runtime.append(encode_subject("hide", item)))), 202)


@router.delete("/items/{item}/hidden", status_code=202, responses=answers(Written, 202, "Durable"))
async def show_item(item: ItemId, query: NoQuery, runtime: TheRuntime) -> Response:
    """Recommend this item again."""
    return reply(Written(str(await runtime.append(encode_subject("show", item)))), 202)


@router.delete("/users/{user}", status_code=202, responses=answers(Forgotten, 202, "Durable"))
async def forget_user(user: UserId, query: NoQuery, runtime: TheRuntime) -> Response:
    """Forget a user: at once in all answers, and on disk when the job is done."""
    stream_id = await runtime.append(encode_subject("forget", user))
    job = await runtime.blocking(runtime.jobs.submit_forgetting, user, stream_id)
    return reply(Forgotten(str(stream_id), job.id, REMAINS), 202)
