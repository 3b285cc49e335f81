"""`/console/experiments`: which shares of the users get which models, and the rates that follow, with intervals."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheService
from service.api.experiment_report import report_of
from service.engine.queries.document_queries import DocumentList, ListDocuments
from service.engine.queries.experiment_queries import KIND, ExperimentCounts, GetExperiment
from service.engine.queries.forms import Id
from service.extras.console.pages import page
from service.extras.console.visit import console_router

router = console_router()


@router.get("/experiments")
async def get_experiments(
    request: Request,
    serving: TheService,
    id: Annotated[Id | None, Query()] = None,
) -> Response:
    """All experiments, and the report of one: of `id`, else of the first."""
    listed = msgspec.json.decode(await serving.answer(ListDocuments(KIND)), type=DocumentList).documents
    names = [one.name for one in listed]
    chosen = id or next(iter(names), None)
    report = None
    if chosen is not None:
        counts = msgspec.json.decode(await serving.answer(GetExperiment(chosen)), type=ExperimentCounts)
        report = await asyncio.to_thread(report_of, counts)
    return page(request, "experiments.html", names=names, report=report)
