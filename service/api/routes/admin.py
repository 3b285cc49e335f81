"""Operation of the service: training, models, hidden items, forgotten users."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field, JsonValue

from gpu.algorithms import ALGORITHMS
from service.api import operations
from service.api.answers import Written, written
from service.api.dependencies import ItemId, PathName, TheService, UserId, answers
from service.api.door.audit import made
from service.api.door.route import Route
from service.api.operations import EndedModel, Forgotten, JobList, ModelList
from service.api.requests import NoParameters, Wait
from service.base.errors import InvalidRequest
from service.engine.models.model_info import ModelInfo
from service.engine.queries.few_faults import Strict
from service.engine.queries.forms import Id
from service.engine.queries.quality_queries import GetQuality, QualityReport
from service.engine.queries.rating_queries import FindUser
from service.jobs.jobs import Job
from service.jobs.training import Training
from service.settings.model_names import MAX_NAME_LENGTH
from service.storage.events import Merge, encode_merge, encode_subject

router = APIRouter(route_class=Route, prefix="/admin", tags=["admin"])
NoQuery = Annotated[NoParameters, Query()]
WaitQuery = Annotated[Wait, Query()]


MAX_PARAMS = 64  # hyperparameters in one request; no algorithm has half as many


class Retrain(Strict):
    """Body of `POST /admin/retrain`."""

    algorithm: Literal[tuple(sorted(ALGORITHMS))]  # type: ignore[valid-type]  # the names are known only at run time
    params: dict[str, JsonValue] = Field(
        {}, max_length=MAX_PARAMS, description="Hyperparameters over the defaults, such as n_factors."
    )
    name: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="Its name, of lower-case letters, digits and hyphens; default: that of the algorithm.",
    )
    shadow: bool = Field(False, description="Whether it learns and is tested beside the others, but never answers.")
    activate: bool = Field(True, description="Whether the new model goes live if it is good enough.")
    tune: bool = Field(False, description="Whether to search for better params first, judged by held-out pairs.")
    force: bool = Field(False, description="Whether it goes live even if it is worse than the live one or a baseline.")

    def judged(self) -> Training:
        """The training that is asked for. Raises what `Training.of` raises."""
        return Training.of(
            self.algorithm,
            self.params,
            self.name,
            activate=self.activate,
            force=self.force,
            tune=self.tune,
            shadow=self.shadow,
        )


class MergeBody(Wait):
    """Body of `POST /admin/users/{user}/merge`."""

    user: Id = Field(alias="from", description="The user who becomes part of the other one.")


@router.post(
    "/retrain",
    status_code=202,
    responses=answers(Job, 202, "Queued", http_409="The name of the shadow is that of a model that answers"),
)
async def retrain(body: Retrain, query: NoQuery, serving: TheService) -> bytes:
    """Train a model on every rating acknowledged so far; it goes live if it is good enough.

    If the same training waits already, the answer is its job, which will read these ratings too.
    """
    return made("job", await serving.operate(operations.SubmitTraining(body.judged())))


@router.get("/jobs", responses=answers(JobList))
async def list_jobs(query: WaitQuery, serving: TheService) -> bytes:
    """All jobs, newest first."""
    return await serving.operate(operations.ListJobs(), query.position)


@router.get("/jobs/{job}", responses=answers(Job, http_404="Unknown job"))
async def get_job(job: PathName, query: WaitQuery, serving: TheService) -> bytes:
    """One job."""
    return await serving.operate(operations.GetJob(job), query.position)


@router.delete("/jobs/{job}", status_code=202, responses=answers(Job, 202, "The job will stop", http_404="Unknown job"))
async def cancel_job(job: PathName, query: NoQuery, serving: TheService) -> bytes:
    """Stop a queued or running job. A finished job does not change."""
    return await serving.operate(operations.CancelJob(job))


@router.get("/models", responses=answers(ModelList))
async def list_models(query: WaitQuery, serving: TheService) -> bytes:
    """All snapshots, and which of them are live."""
    return await serving.operate(operations.ListModels(), query.position)


@router.get("/models/{model}/quality", responses=answers(QualityReport, http_404="No live model of that name"))
async def get_quality(model: PathName, query: WaitQuery, serving: TheService) -> bytes:
    """How well a live model foretold ratings and events before it learned them, and a baseline beside it."""
    return await serving.answer(GetQuality(model=model), query.position)


@router.post(
    "/models/{version}/activate",
    status_code=202,
    responses=answers(ModelInfo, 202, "Being loaded", http_404="Unknown version"),
)
async def activate_model(version: PathName, query: NoQuery, serving: TheService) -> bytes:
    """Make a snapshot live under its name, without comparing it with the live one. Use it to roll back."""
    return await serving.operate(operations.ActivateModel(version))


@router.delete(
    "/models/{name}",
    status_code=202,
    responses=answers(EndedModel, 202, "Ended", http_404="No live model of that name"),
)
async def end_model(name: PathName, query: WaitQuery, serving: TheService) -> bytes:
    """End a live model or shadow: it neither answers nor learns. Its snapshots stay; activate one to go back."""
    return await serving.operate(operations.EndModel(name), query.position)


@router.put("/items/{item}/hidden", status_code=202, responses=answers(Written, 202, "Durable"))
async def hide_item(item: ItemId, query: NoQuery, serving: TheService) -> bytes:
    """Never recommend this item again; it still counts for learning."""
    return await written(serving, encode_subject("hide", item))


@router.delete("/items/{item}/hidden", status_code=202, responses=answers(Written, 202, "Durable"))
async def show_item(item: ItemId, query: NoQuery, serving: TheService) -> bytes:
    """Recommend this item again."""
    return await written(serving, encode_subject("show", item))


@router.delete("/users/{user}", status_code=202, responses=answers(Forgotten, 202, "Durable"))
async def forget_user(user: UserId, query: NoQuery, serving: TheService) -> bytes:
    """Forget a user: at once in all answers, and on disk when the job is done."""
    return made("job", await serving.operate(operations.ForgetUser(user)), "job")


@router.post(
    "/users/{user}/merge",
    status_code=202,
    responses=answers(Written, 202, "Durable", http_404="Unknown user to merge"),
)
async def merge_user(user: UserId, body: MergeBody, query: NoQuery, serving: TheService) -> bytes:
    """Make another user, such as an anonymous one, part of this user: all ratings and events, in one step."""
    if body.user == user:
        raise InvalidRequest(f"Invalid from: expected another user, got {user!r}")
    await serving.answer(FindUser(user=body.user), body.position)
    return await written(serving, encode_merge(Merge(body.user, user)))
