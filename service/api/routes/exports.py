"""Exports: everything of one kind at one position, as a stream of bytes."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheService, problem
from service.api.export_response import ExportResponse
from service.api.list_schemas import ExportQuery
from service.jobs.export_formats import MEDIA_TYPES
from service.jobs.export_process import ExportProcess
from service.operations import ArchiveAll, Archived

router = APIRouter(prefix="/admin", tags=["admin"])
AS_OF = "X-As-Of"

_HEADERS = {AS_OF: {"description": "The last stream id that the export includes.", "schema": {"type": "string"}}}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The export", "headers": _HEADERS, "content": {media: {} for media in MEDIA_TYPES.values()}},
    409: problem("An export is already running"),
}


@router.get("/export", response_class=Response, responses=_ANSWERS)
async def export(query: Annotated[ExportQuery, Query()], request: Request, serving: TheService) -> Response:
    """All ratings, events or items at one position, which X-As-Of names; `nearfield import` reads them back."""
    done = msgspec.json.decode(await serving.operate(ArchiveAll(), query.position), type=Archived)
    name = f"{query.what}-{done.as_of}.{query.format}"
    headers = {AS_OF: done.as_of, "Content-Disposition": f'attachment; filename="{name}"'}
    media = MEDIA_TYPES[query.format]
    if request.scope.get("is_head"):
        return Response(media_type=media, headers=headers)
    return ExportResponse(ExportProcess(serving.settings.data, query.what, query.format, done.as_of), media, headers)
