"""Experiments: which share of the users gets which model, and what it leads to."""

from __future__ import annotations

import asyncio
import math
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field

from service.api.answers import ExperimentList, Written
from service.api.dependencies import DocumentName, TheService, answers
from service.api.door.route import Route
from service.api.experiment_report import ExperimentReport, report_of
from service.api.operations import PutExperiment
from service.api.requests import NoParameters, Wait
from service.base.errors import InvalidRequest
from service.base.ids import MAX_ID_BYTES
from service.engine.queries.document_queries import DocumentList, ListDocuments
from service.engine.queries.experiment_queries import KIND, Arm, Experiment, ExperimentCounts, GetExperiment
from service.engine.queries.few_faults import Strict, few_faults
from service.storage.documents import WHOLE, Document
from service.storage.events import encode_document

MAX_EXPERIMENTS = 100

router = APIRouter(route_class=Route, prefix="/admin/experiments", tags=["admin"])
NoQuery = Annotated[NoParameters, Query()]
WaitQuery = Annotated[Wait, Query()]


MAX_ARMS = 10  # of an experiment
SHARES_TOLERANCE = 1e-6  # three times 33.3333333 is enough


class ArmBody(Strict):
    """An arm of an experiment."""

    model: str = Field(min_length=1, max_length=MAX_ID_BYTES, description="Name of a model that answers.")
    share: float = Field(gt=0, le=WHOLE, description="Percentage of users who get it.")


def _whole(arms: list[ArmBody]) -> list[ArmBody]:
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
        AfterValidator(_whole),
        Field(min_length=2, max_length=MAX_ARMS),
        few_faults(ArmBody, MAX_ARMS),
    ]
    salt: str | None = Field(
        None,
        max_length=MAX_ID_BYTES,
        description="Decides with the user's id which arm it is; default: the id of the experiment.",
    )


@router.put("/{experiment}", status_code=202, responses=answers(Written, 202, "Durable"))
async def put_experiment(experiment: DocumentName, body: ExperimentBody, query: NoQuery, serving: TheService) -> bytes:
    """Divide the users among models that answer. It replaces an earlier experiment, and counts begin anew."""
    listed = msgspec.json.decode(await serving.answer(ListDocuments(KIND)), type=DocumentList).documents
    if len(listed) >= MAX_EXPERIMENTS and experiment not in {one.name for one in listed}:
        raise InvalidRequest(f"Invalid experiment: expected at most {MAX_EXPERIMENTS}, got one more; DELETE one first")
    arms = [Arm(arm.model, arm.share) for arm in body.arms]
    put = Experiment(arms, experiment if body.salt is None else body.salt)
    return await serving.operate(PutExperiment(experiment, put))


@router.delete("/{experiment}", status_code=202, responses=answers(Written, 202, "Durable"))
async def delete_experiment(experiment: DocumentName, query: NoQuery, serving: TheService) -> bytes:
    """End an experiment, if there is one of that id; its counts are gone."""
    stream_id = await serving.append(encode_document(Document(KIND, experiment)))
    return msgspec.json.encode(Written(str(stream_id)))


@router.get("", responses=answers(ExperimentList))
async def list_experiments(query: WaitQuery, serving: TheService) -> bytes:
    """The ids of all experiments."""
    found = msgspec.json.decode(await serving.answer(ListDocuments(KIND), query.position), type=DocumentList)
    return msgspec.json.encode(ExperimentList(found.documents, found.as_of))


@router.get("/{experiment}", responses=answers(ExperimentReport, http_404="Unknown experiment"))
async def get_experiment(experiment: DocumentName, query: WaitQuery, serving: TheService) -> bytes:
    """The arms, and the rates of users with events of each type, with intervals."""
    found = await serving.answer(GetExperiment(experiment), query.position)
    counts = msgspec.json.decode(found, type=ExperimentCounts)
    return msgspec.json.encode(await asyncio.to_thread(report_of, counts))
