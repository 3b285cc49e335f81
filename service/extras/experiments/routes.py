"""Experiments: which share of the users gets which model, and what it leads to."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from msgspec import Struct
from pydantic import AfterValidator, Field

from service.api.answers import Written, written
from service.api.dependencies import DocumentName, TheService, answers
from service.api.door.route import Route
from service.api.openapi import examples
from service.api.openapi.examples import MODEL, POSITION
from service.api.requests import NoParameters, Wait
from service.api.serving import Serving
from service.base.errors import InvalidRequest
from service.base.ids import MAX_ID_BYTES
from service.engine.queries.document_queries import DocumentList, ListDocuments, ListedDocument
from service.engine.queries.few_faults import Strict, few_faults
from service.engine.queries.forms import Filter
from service.extras.experiments.queries import KIND, GetExperiment, PutExperiment
from service.extras.experiments.report import ExperimentReport
from service.storage.documents import WHOLE, Arm, Document, Experiment
from service.storage.events import StreamId, encode_document

MAX_EXPERIMENTS = 100
MAX_ARMS = 10  # of an experiment
SHARES_TOLERANCE = 1e-6  # three times 33.3333333 is enough

router = APIRouter(route_class=Route, prefix="/admin/experiments", tags=["admin"])
NoQuery = Annotated[NoParameters, Query()]
WaitQuery = Annotated[Wait, Query()]


class ArmBody(Strict):
    """An arm of an experiment."""

    model: str = Field(min_length=1, max_length=MAX_ID_BYTES, description="Name of a model that answers.")
    share: float = Field(gt=0, le=WHOLE, description="Percentage of users who get it.")


def whole(arms: list[ArmBody]) -> list[ArmBody]:
    """`arms`, if they are those of one experiment; else ValueError."""
    total = math.fsum(arm.share for arm in arms)
    if abs(total - WHOLE) > SHARES_TOLERANCE:
        raise ValueError(f"expected shares that add up to {WHOLE}, got {total:.12g}")
    models = [arm.model for arm in arms]
    if len(set(models)) < len(models):
        raise ValueError(f"expected each model once, got {', '.join(models)}")
    return arms


class ExperimentBody(Strict):
    """Body of an experiment."""

    arms: Annotated[
        list[ArmBody],
        AfterValidator(whole),
        Field(min_length=2, max_length=MAX_ARMS),
        few_faults(ArmBody, MAX_ARMS),
    ]
    salt: str | None = Field(
        None,
        max_length=MAX_ID_BYTES,
        description="Decides with the user's id which arm it is; default: the id of the experiment.",
    )
    filter: Annotated[Filter | None, Field(description="Only users who pass it take part; default: all.")] = None


class ExperimentList(Struct):
    """The ids of all experiments, each with the position of the entry that has put it."""

    experiments: list[ListedDocument]
    as_of: str


@router.put("/{experiment}", status_code=202, responses=answers(Written, 202, "Durable"))
async def put_experiment(experiment: DocumentName, body: ExperimentBody, query: NoQuery, serving: TheService) -> bytes:
    """Divide the users among models that answer. It replaces an earlier experiment, and counts begin at 0."""
    listed = (await experiments_of(serving)).documents
    if len(listed) >= MAX_EXPERIMENTS and experiment not in {each.name for each in listed}:
        raise InvalidRequest(f"Invalid experiment: expected at most {MAX_EXPERIMENTS}, got one more; DELETE one first")
    arms = [Arm(arm.model, arm.share) for arm in body.arms]
    put = Experiment(arms, experiment if body.salt is None else body.salt, body.filter)
    return await serving.operate(PutExperiment(experiment, put))


@router.delete("/{experiment}", status_code=202, responses=answers(Written, 202, "Durable"))
async def delete_experiment(experiment: DocumentName, query: NoQuery, serving: TheService) -> bytes:
    """End an experiment, if there is one of that id; its counts are gone."""
    return await written(serving, encode_document(Document(KIND, experiment)))


@router.get("", responses=answers(ExperimentList))
async def list_experiments(query: WaitQuery, serving: TheService) -> bytes:
    """The ids of all experiments."""
    experiments = await experiments_of(serving, query.position)
    return msgspec.json.encode(ExperimentList(experiments.documents, experiments.as_of))


@router.get("/{experiment}", responses=answers(ExperimentReport, http_404="Unknown experiment"))
async def get_experiment(experiment: DocumentName, query: WaitQuery, serving: TheService) -> bytes:
    """The arms, and the rates of users with events of each type, with intervals."""
    return await serving.operate(GetExperiment(experiment), query.position)


async def page(serving: Serving, id: str | None) -> dict[str, Any]:
    """What the console shows: the ids of all experiments, and the report of one: of `id`, else of the first."""
    names = [each.name for each in (await experiments_of(serving)).documents]
    if id is None and not names:
        return {"names": names, "report": None}
    report = await serving.operate(GetExperiment(id or names[0]))
    return {"names": names, "report": msgspec.json.decode(report, type=ExperimentReport)}


async def experiments_of(serving: Serving, wait_for: StreamId | None = None) -> DocumentList:
    """The names of all experiments."""
    return msgspec.json.decode(await serving.answer(ListDocuments(KIND), wait_for), type=DocumentList)


_rate = {"events": 41, "users": 30, "rate": 0.6, "low": 0.462, "high": 0.724}
_arm = {"model": MODEL, "share": 90.0, "answered": 1204, "users": 50, "types": {"view": _rate}}
_difference = {"model": "culsh", "type": "view", "difference": 0.04, "low": -0.03, "high": 0.11}
_experiment = {"arms": [{"model": MODEL, "share": 90.0}, {"model": "culsh", "share": 10.0}], "salt": "summer"}
_report_of_it = {
    "experiment": "summer",
    "salt": "summer",
    "filter": None,
    "stream_id": POSITION,
    "confidence": 0.95,
    "arms": [_arm],
    "differences": [_difference],
    "as_of": POSITION,
}
examples.BODIES["put_experiment"] = {
    "two arms": _experiment,
    "users of a country": {**_experiment, "filter": {"tag": "country", "in": ["de"]}},
}
examples.COMPONENTS |= {
    "ArmBody": _experiment["arms"][0],
    "ArmReport": _arm,
    "Difference": _difference,
    "ExperimentBody": _experiment,
    "ExperimentList": {"experiments": [{"name": "summer", "stream_id": POSITION}], "as_of": POSITION},
    "ExperimentReport": _report_of_it,
    "Rate": _rate,
}
