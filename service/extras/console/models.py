"""`/console/models`: all snapshots with their metrics, what is live, and the form of a training."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gpu.algorithms import ALGORITHMS
from service.api.dependencies import TheService
from service.api.door.audit import concern
from service.api.operations import ActivateModel, ModelList, SubmitTraining
from service.api.operations import ListModels as AskForModels
from service.api.serving import Serving
from service.engine.models.model_info import ModelInfo
from service.engine.queries.quality_queries import GetQuality, QualityReport
from service.extras.console import training_form
from service.extras.console.jobs import Job, jobs_of
from service.extras.console.pages import Part, page, part, to
from service.extras.console.visit import console_router
from service.jobs.jobs import TRAIN
from service.storage.snapshots import live_versions

DEFAULT = "als-implicit"  # in the form

router = console_router()


class Row(NamedTuple):
    """A snapshot.

    Attributes:
        live: the version of its name that is live.
        verb: what activating it would be called; None if it is live.
        quality: that of live ones.
        before: if it is live, the version of its name that was live before, and can be so again.
    """

    model: ModelInfo
    live: str | None
    verb: str | None
    quality: Part | None
    before: str | None


@router.get("/models")
async def get_models(request: Request, serving: TheService, algorithm: str = DEFAULT) -> Response:
    """The page."""
    rows, jobs = await models_and_trainings(serving)
    return page(
        request, "models.html", rows=rows, jobs=jobs, algorithms=ALGORITHMS, algorithm=algorithm,
        ends={value: text for value, (text, _) in training_form.THEN.items()}, **about(algorithm),
    )  # fmt: skip


@router.get("/models-now")
async def get_state(request: Request, serving: TheService) -> Response:
    """Models and trainings alone."""
    rows, jobs = await models_and_trainings(serving)
    return page(request, "models-now.html", rows=rows, jobs=jobs)


@router.get("/parameters")
async def get_parameters(request: Request, algorithm: str) -> Response:
    """The sentence and the fields of an algorithm alone."""
    return page(request, "parameters.html", **about(algorithm))


@router.post("/retrain")
async def retrain(request: Request, serving: TheService) -> Response:
    """Queue a training, and go to its job."""
    answer = await serving.operate(SubmitTraining(training_form.training_of(request.state.form)))
    job = msgspec.json.decode(answer, type=Job).id
    concern(f"job {job}")
    return to("job", id=job)


@router.get("/activate")
async def ask(request: Request, serving: TheService, version: str) -> Response:
    """Ask before a snapshot takes the place of another one."""
    rows, _ = await models_and_trainings(serving)
    row = next((row for row in rows if row.model.version == version and row.verb), None)
    if row is None:  # it is gone, or live by now
        return to("models")
    live = next((one.model for one in rows if one.model.version == row.live), None)
    return page(request, "activate.html", row=row, live=live)


@router.post("/activate")
async def activate(request: Request, serving: TheService) -> Response:
    """Make a snapshot live."""
    version = request.state.form.get("version", "")
    concern(f"version {version}")
    await serving.operate(ActivateModel(version))
    return to("models")


async def models_and_trainings(serving: Serving) -> tuple[list[Row], list[Job]]:
    """All snapshots, and the trainings that have not ended."""
    models = msgspec.json.decode(await serving.operate(AskForModels()), type=ModelList).models
    answering = [model for model in models if model.live or model.shadow]
    reports = await asyncio.gather(
        *(part(serving.answer(GetQuality(model=model.name)), QualityReport) for model in answering)
    )
    quality = {model.version: report for model, report in zip(answering, reports, strict=True)}
    live = {model.name: model.version for model in answering}
    former = await asyncio.to_thread(live_versions.replaced, serving.settings.data)
    verbs = {model.version: verb_of(model, live.get(model.name)) for model in models}
    rows = []
    for model in models:
        before = former.get(model.name, "") if model.version == live.get(model.name) else ""
        row = Row(model, live.get(model.name), verbs[model.version], quality.get(model.version), None)
        rows.append(row._replace(before=before) if verbs.get(before) else row)
    jobs = [job for job in await jobs_of(serving) if job.kind == TRAIN and not job.has_ended]
    return rows, jobs


def about(algorithm: str) -> dict[str, Any]:
    """What a part with the parameters of an algorithm shows. Raises `InvalidParams` if there is none of this name."""
    return {"fields": training_form.fields_of(algorithm), "sentence": ALGORITHMS[algorithm].learns}


def verb_of(model: ModelInfo, live: str | None) -> str | None:
    """What activating a model would be called, if the version `live` of its name answers; None if it cannot be done.

    Versions have the time of their training after the name, so that texts compare like times.
    """
    if model.version == live or model.error is not None:
        return None
    return "Roll back" if live is not None and model.version < live else "Activate"
