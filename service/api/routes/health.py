"""Liveness, readiness and metrics, without a key."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheRuntime, answers, reply
from service.api.schemas import Alive, NoParameters, Ready
from service.errors import NotReady
from service.metrics import kind_for

router = APIRouter(tags=["operation"])


@router.get("/health/live", responses=answers(Alive))
async def get_live(query: Annotated[NoParameters, Query()]) -> Response:
    """200 while the process runs its event loop."""
    return reply(Alive("live"))


@router.get("/health/ready", responses=answers(Ready, http_503="Not ready: why, and how much is done"))
async def get_ready(query: Annotated[NoParameters, Query()], runtime: TheRuntime) -> Response:
    """200 when all ratings are read and every live model answers. Without any model, only ratings are needed."""
    readiness = runtime.readiness
    if not readiness.ready:
        raise NotReady(readiness.reason or "the service is starting", fraction=round(readiness.fraction, 3))
    return reply(Ready("ready", str(runtime.as_of)))


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}}},
)
async def get_metrics(query: Annotated[NoParameters, Query()], request: Request) -> Response:
    """All metrics, in the text format of Prometheus, or of OpenMetrics if `Accept` asks for it."""
    kind = kind_for(request.headers.get("accept"))
    return Response(await request.app.state.scrape.page(kind), headers={"content-type": kind, "vary": "Accept"})
