"""Liveness, readiness and metrics, without a key."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from service.api.answers import Alive
from service.api.dependencies import TheService, answers
from service.api.door.route import Call, Route
from service.api.operations import GetMetrics, GetReadiness, Ready
from service.api.requests import NoParameters
from service.base.errors import NotReady
from service.telemetry.metrics import kind_for

router = APIRouter(route_class=Route, tags=["operation"])


@router.get("/health/live", responses=answers(Alive))
async def get_live(query: Annotated[NoParameters, Query()]) -> bytes:
    """200 while the process runs its event loop."""
    return msgspec.json.encode(Alive("live"))


@router.get("/health/ready", responses=answers(Ready, http_503="Not ready: why, and how much is done"))
async def get_ready(query: Annotated[NoParameters, Query()], request: Call, serving: TheService) -> bytes:
    """200 when all ratings are read and every live model answers. Without any model, only ratings are needed."""
    if request.app.state.is_stopping:
        raise NotReady("the service is stopping", 0.0)  # all other requests are still answered
    ready = await serving.operate(GetReadiness())
    for name, further in request.app.state.further.items():
        try:
            await further.operate(GetReadiness())
        except NotReady as error:
            raise NotReady(f"data set {name}: {error}", error.fraction) from None
    return ready


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}}},
)
async def get_metrics(query: Annotated[NoParameters, Query()], request: Call, serving: TheService) -> Response:
    """All metrics, in the text format of Prometheus, or of OpenMetrics if `Accept` asks for it."""
    kind = kind_for(request.headers.get("accept"))
    return Response(await serving.operate(GetMetrics(kind)), headers={"content-type": kind, "vary": "Accept"})
