"""`/console/overview`: sizes of the service, and curves that the page draws from `Counts`."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.api.console.counts import counts_of
from service.api.console.pages import Part, page
from service.api.console.visit import console_router
from service.api.dependencies import TheService, reply
from service.errors import ServiceError
from service.metrics import PLAIN_TEXT
from service.operations import GetMetrics, GetStats
from service.serving import Serving
from service.statistics import Stats

router = console_router()


@router.get("/overview")
async def get_overview(request: Request, serving: TheService) -> Response:
    """The page; its script then asks for counts every few seconds."""
    return page(request, "overview.html", stats=await _stats(serving))


@router.get("/sizes")
async def get_sizes(request: Request, serving: TheService) -> Response:
    """The table of sizes alone."""
    return page(request, "sizes.html", stats=await _stats(serving))


@router.get("/counts")
async def get_counts(serving: TheService) -> Response:
    """The present counts as JSON."""
    text = (await serving.operate(GetMetrics(PLAIN_TEXT))).decode()
    return reply(msgspec.json.encode(await asyncio.to_thread(counts_of, text)))


async def _stats(serving: Serving) -> Part:
    try:
        return Part(msgspec.json.decode(await serving.operate(GetStats()), type=Stats))
    except ServiceError as error:
        return Part(error=f"{error.title}: {error}")
