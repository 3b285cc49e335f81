"""Exports: everything of one kind at one position, as a stream of bytes; and lists of all users, as files."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from service.api.dependencies import PathName, TheService, answers, check_n, problem, reply
from service.api.door.audit import concern, made
from service.api.operations import ArchiveAll, Archived, ListFiles, SubmitLists
from service.api.schemas.common_schemas import NoParameters
from service.engine.queries import Popular
from service.extras.exports.export_formats import MEDIA_TYPES
from service.extras.exports.export_process import ExportProcess
from service.extras.exports.export_response import ExportResponse
from service.extras.exports.schemas import ExportQuery, ListsBody
from service.jobs.jobs import Job
from service.storage import list_files

router = APIRouter(prefix="/admin", tags=["admin"])
AS_OF = "X-As-Of"

_HEADERS = {AS_OF: {"description": "The last stream id that the export includes.", "schema": {"type": "string"}}}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The export", "headers": _HEADERS, "content": {media: {} for media in MEDIA_TYPES.values()}},
    409: problem("An export is already running"),
}

_FILE_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file", "content": {MEDIA_TYPES["parquet"]: {}}},
    404: problem("Unknown lists"),
}
NoQuery = Annotated[NoParameters, Query()]


@router.get("/export", response_class=Response, responses=_ANSWERS)
async def export(query: Annotated[ExportQuery, Query()], request: Request, serving: TheService) -> Response:
    """All ratings, events or items at one position, which X-As-Of names; `nearfield import` reads them back."""
    concern(f"{query.what} as {query.format}")
    done = msgspec.json.decode(await serving.operate(ArchiveAll(), query.position), type=Archived)
    name = f"{query.what}-{done.as_of}.{query.format}"
    headers = {AS_OF: done.as_of, "Content-Disposition": f'attachment; filename="{name}"'}
    media = MEDIA_TYPES[query.format]
    if request.scope.get("is_head"):
        return StreamingResponse(iter(()), media_type=media, headers=headers)  # an export does not tell its length
    return ExportResponse(ExportProcess(serving.settings.data, query.what, query.format, done.as_of), media, headers)


@router.post(
    "/lists", status_code=202, responses=answers(Job, 202, "Queued", http_404="No live model, or none of that name")
)
async def make_lists(body: ListsBody, query: NoQuery, request: Request, serving: TheService) -> Response:
    """Make lists for all users, as GET /recommend/{user} gives them at this position, in a Parquet file."""
    check_n(serving, body.n)
    if body.filter is not None:
        await serving.answer(Popular(n=1, filter=body.filter))  # refuses unknown names now, and not only the job
    given = json.dumps(await request.json())  # the framework keeps it; its filter has the form in which it was sent
    return reply(made("job", await serving.operate(SubmitLists(body.n, body.filter, body.model, given))), 202)


@router.get("/exports", responses=answers(ListFiles))
async def list_exports(query: NoQuery, serving: TheService) -> Response:
    """The files of lists, newest first."""
    found = await asyncio.to_thread(list_files.listed, serving.settings.data)
    return reply(msgspec.json.encode(ListFiles(found)))


@router.get("/exports/{job}", response_class=Response, responses=_FILE_ANSWERS)
async def get_export(job: PathName, query: NoQuery, serving: TheService) -> Response:
    """The lists of one job: user, rank, item and score, in Parquet."""
    path = await asyncio.to_thread(list_files.existing, serving.settings.data, job)
    return FileResponse(path, media_type=MEDIA_TYPES["parquet"], filename=path.name)
