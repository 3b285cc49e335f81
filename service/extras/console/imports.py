"""`/console/imports`: where ratings and events came from, such as imported files, and how to take one of them back."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheService
from service.api.door.audit import made
from service.api.operations import SubmitUndo
from service.engine.queries.forms import Newest
from service.engine.queries.source_queries import ListSources, SourceList
from service.extras.console.jobs import Job
from service.extras.console.pages import page, part, to
from service.extras.console.visit import console_router
from service.jobs.undo import Undo

N_SOURCES = 50

router = console_router()


@router.get("/imports")
async def get_imports(request: Request, serving: TheService, offset: Annotated[Newest, Query()] = 0) -> Response:
    """A page of all sources; `offset` are those that are left out."""
    n = min(N_SOURCES, serving.settings.max_n)
    sources = await part(serving.answer(ListSources(n, offset)), SourceList)
    return page(request, "imports.html", sources=sources, older=offset + n)


@router.post("/undo")
async def undo(request: Request, serving: TheService) -> Response:
    """Count what taking a source back would do, or do it: a job, whose page shows the result and asks after a count."""
    form = request.state.form
    asked = Undo(form.get("source", ""), form.get("key"), dry_run="dry_run" in form)
    answer = made("job", await serving.operate(SubmitUndo(asked)))
    return to("job", id=msgspec.json.decode(answer, type=Job).id)
