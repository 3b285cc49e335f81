"""Exports: everything of one kind at one position, as a stream of bytes; and lists of all users, as files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query
from msgspec import structs
from pydantic import Field
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api.dependencies import PathName, TheScenarios, TheService, UserId, answers, problem
from service.api.door.audit import concern, made
from service.api.door.route import Call, Route
from service.api.list_requests import ListsBody
from service.api.openapi import examples
from service.api.operations import ArchiveAll, Archived, ListFiles, SubmitLists
from service.api.requests import NoParameters, Wait
from service.api.routes.recommend import check_list
from service.engine.queries import Recommend
from service.engine.queries.catalog_queries import ListUsers
from service.engine.queries.rating_queries import FindUser
from service.engine.queries.scenario_body import for_a_file
from service.extras.exports.export_formats import MEDIA_TYPES, Format
from service.extras.exports.export_process import ExportProcess
from service.jobs.export_rows import What
from service.jobs.jobs import Job
from service.storage import list_files

router = APIRouter(route_class=Route, prefix="/admin", tags=["admin"])
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


class UserExportQuery(Wait):
    """Parameters of the export of one user."""

    format: Format = Field("ndjson", description="NDJSON, Parquet, or a stream of Arrow.")


class ExportQuery(UserExportQuery):
    """Parameters of an export."""

    what: What = Field("ratings", description="What to export.")


@router.get("/export", response_class=Response, responses=_ANSWERS)
async def export(query: Annotated[ExportQuery, Query()], request: Call, serving: TheService) -> Response:
    """All ratings, events or items at one position, which X-As-Of names; `nearfield import` reads them back."""
    concern(f"{query.what} as {query.format}")
    return await exported(query, request, serving, query.what, what=query.what)


@router.get("/users/{user}/export", response_class=Response, responses={**_ANSWERS, 404: problem("Unknown user")})
async def export_user(
    user: UserId, query: Annotated[UserExportQuery, Query()], request: Call, serving: TheService
) -> Response:
    """All that is kept of one user: the rows that forgetting this user would remove, also those of merged ids."""
    concern(f"a user as {query.format}")
    await serving.answer(FindUser(user=user), query.position)
    return await exported(query, request, serving, "user", user=quote(user, safe=""))


async def exported(
    query: UserExportQuery, request: Call, serving: TheService, name: str, **options: str
) -> StreamingResponse:
    """The answer of an export with these options of its process, as a file whose name begins with `name`."""
    archived = msgspec.json.decode(await serving.operate(ArchiveAll(), query.position), type=Archived)
    headers = {
        AS_OF: archived.as_of,
        "Content-Disposition": f'attachment; filename="{name}-{archived.as_of}.{query.format}"',
    }
    media = MEDIA_TYPES[query.format]
    if request.scope.get("is_head"):
        return StreamingResponse((), media_type=media, headers=headers)  # an export does not tell its length
    process = ExportProcess(serving.settings.data, format=query.format, upto=archived.as_of, **options)
    return ExportResponse(process, media, headers)


@router.post(
    "/lists", status_code=202, responses=answers(Job, 202, "Queued", http_404="No live model, or none of that name")
)
async def make_lists(
    body: ListsBody, query: NoQuery, request: Call, serving: TheService, scenarios: TheScenarios
) -> bytes:
    """Make lists for all or some users, as POST /recommend gives them at this position, in a Parquet file."""
    user_filter: str | None = getattr(body, "user_filter")  # noqa: B009 (a field that `takes` has added)

    async def ask(base: Mapping[str, Any]) -> Recommend:
        asked = check_list(serving, body.query(base))
        listed = for_a_file(asked)
        await serving.answer(structs.replace(asked, users=["nobody"], fallback="popular"))  # refuses unknown names now
        return structs.replace(listed, users=None if asked.users == "all" else asked.users)

    asked = await scenarios.answer(body.scenario, None, ask)
    if user_filter is not None:
        await serving.answer(ListUsers(n=1, filter=user_filter))
    sent = await request.json()  # the framework keeps it; its filter has the form in which it was sent
    if asked.users is not None:
        sent["users"] = len(asked.users)
    return made("job", await serving.operate(SubmitLists(asked, json.dumps(sent), user_filter)))


@router.get("/exports", responses=answers(ListFiles))
async def list_exports(query: NoQuery, serving: TheService) -> bytes:
    """The files of lists, newest first."""
    return msgspec.json.encode(ListFiles(await asyncio.to_thread(list_files.listed, serving.settings.data)))


@router.get("/exports/{job}", response_class=Response, responses=_FILE_ANSWERS)
async def get_export(job: PathName, query: NoQuery, serving: TheService) -> Response:
    """The lists of one job: user, rank, item and score, in Parquet."""
    path = await asyncio.to_thread(list_files.existing, serving.settings.data, job)
    return FileResponse(path, media_type=MEDIA_TYPES["parquet"], filename=path.name)


class ExportResponse(StreamingResponse):
    """The answer of one export.

    Its status is sent with the first bytes. What fails before becomes a problem document. What fails later breaks the
    connection off, so that no client takes a part for the whole.
    """

    def __init__(self, process: ExportProcess, media_type: str, headers: Mapping[str, str]) -> None:
        super().__init__((), media_type=media_type, headers=headers)
        self._export = process

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Start the process, send what it writes, and end it."""

        async def departure() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        async with self._export:
            sending = asyncio.ensure_future(self._send(send))
            leaving = asyncio.ensure_future(departure())
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                for task in (sending, leaving):
                    task.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        chunks = self._export.chunks()
        chunk = await anext(chunks, b"")
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while chunk:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            chunk = await anext(chunks, b"")
        await send({"type": "http.response.body", "body": b""})


_file = {"job": examples.JOB, "bytes": 52_310, "created_ms": 1795232220712}
examples.PARAMETERS |= {"what": "ratings", "format": "ndjson"}
examples.BODIES["make_lists"] = {
    "for all users": {"n": 50, "users": "all"},
    "for some users": {"n": 10, "users": ["ann", "bob"], "diversity": 0.3, "fallback": "none"},
    "for a segment": {"n": 50, "user_filter": {"tag": "country", "in": ["de"]}},
}
examples.COMPONENTS |= {
    "ListFile": _file,
    "ListFiles": {"exports": [_file]},
    "ListsBody": examples.BODIES["make_lists"]["for all users"],
}
examples.TEXTS |= {
    "/admin/export": '{"user":"ann","item":"synthetic-western-000","rating":4.5,"timestamp":1700000000.0}\n',
    "/admin/exports/{job}": "PAR1",
    "/admin/users/{user}/export": (
        '{"position":"1795232220635-0","kind":"rating","user":"ann","item":"synthetic-western-000","rating":4.5,'
        '"timestamp":1700000000.0}\n'
    ),
}
