"""Sources of batches: how far each has come, how to let one start again, and how to take one back."""

from __future__ import annotations

import contextlib
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from msgspec import Struct
from pydantic import AfterValidator, Field

from service.api.dependencies import DocumentName, TheService, answers, n_listed
from service.api.door.audit import made
from service.api.door.route import Route
from service.api.operations import SubmitUndo
from service.api.requests import Asked
from service.base.errors import Unavailable
from service.base.ids import check_id
from service.engine.queries.few_faults import Strict
from service.engine.queries.fields import takes
from service.engine.queries.source_queries import FindSource, ListedSource, ListSources, SourceList
from service.jobs.jobs import Job
from service.jobs.undo import Undo
from service.storage.events import encode_unmark
from service.storage.sources import MAX_OWNER_BYTES, Unmark

router = APIRouter(route_class=Route, prefix="/admin/sources", tags=["admin"])


@takes(ListSources, "n", "offset")
class SourcesQuery(Asked[ListSources]):
    """A page of all sources."""


class RemovalQuery(Strict):
    """Parameters of the removal of a source."""

    key: Annotated[str, AfterValidator(lambda key: key and check_id(key, MAX_OWNER_BYTES))] | None = Field(
        None, description="Only the source of this key, as the list names it; empty: of none. Default: of every key."
    )


class UndoQuery(RemovalQuery):
    """Parameters of `POST /admin/sources/{source}/undo`."""

    dry_run: bool = Field(False, description="Whether to count what it would take back, and change nothing.")


class RemovedSource(Struct):
    """The answer to `DELETE /admin/sources/{source}`; `removed` is empty if there was none of that name."""

    stream_id: str
    removed: list[ListedSource]


@router.get("", responses=answers(SourceList))
async def list_sources(query: Annotated[SourcesQuery, Query()], serving: TheService) -> bytes:
    """How far each source has come; the one that advanced last comes first."""
    return await serving.answer(query.query(n=n_listed(serving, query)), query.position)


@router.delete("/{source}", status_code=202, responses=answers(RemovedSource, 202, "Durable"))
async def remove_source(source: DocumentName, query: Annotated[RemovalQuery, Query()], serving: TheService) -> bytes:
    """Forget how far a source has come, if it has: its next batch counts, whatever its offset is."""
    sources = msgspec.json.decode(await serving.answer(FindSource(source, query.key)), type=SourceList)
    stream_id = await serving.append(encode_unmark(Unmark(source, query.key)))
    with contextlib.suppress(Unavailable):  # durable all the same; else a batch that comes now already finds it so
        await serving.answer(ListSources(1, 0), stream_id)
    return msgspec.json.encode(RemovedSource(str(stream_id), sources.sources))


@router.post("/{source}/undo", status_code=202, responses=answers(Job, 202, "Queued"))
async def undo_source(source: DocumentName, query: Annotated[UndoQuery, Query()], serving: TheService) -> bytes:
    """Take back what a source has sent until now: ratings, and events with an id. Then its batches count again.

    A pair that was rated since keeps the newer rating. `metrics` of the job has the numbers.
    """
    return made("job", await serving.operate(SubmitUndo(Undo(source, query.key, query.dry_run))))
