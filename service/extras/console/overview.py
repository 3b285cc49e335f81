"""`/console/overview`: sizes of the service, and curves that the page draws from `Counts`."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheService, reply
from service.api.operations import GetMetrics, GetStats
from service.engine.statistics import Stats
from service.extras.console.counts import counts_of
from service.extras.console.pages import page, part
from service.extras.console.visit import console_router

router = console_router()


@router.get("/overview")
async def get_overview(request: Request, serving: TheService) -> Response:
    """The page; its script then asks for counts every few seconds."""
    return page(request, "overview.html", stats=await part(serving.operate(GetStats()), Stats))


@router.get("/sizes")
async def get_sizes(request: Request, serving: TheService) -> Response:
    """The table of sizes alone."""
    return page(request, "sizes.html", stats=await part(serving.operate(GetStats()), Stats))


@router.get("/counts")
async def get_counts(serving: TheService) -> Response:
    """The present counts as JSON."""
    text = (await serving.operate(GetMetrics())).decode()
    return reply(msgspec.json.encode(await asyncio.to_thread(counts_of, text)))
