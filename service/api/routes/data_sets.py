"""What is behind `/d/` and belongs to no data set; `service.api.app` finds the others before it comes to routes."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from service.api.dependencies import PathName
from service.api.door.route import Call, Route
from service.settings.data_sets import UnknownDataSet

router = APIRouter(route_class=Route, prefix="/d", include_in_schema=False)
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@router.api_route("/{name}", methods=METHODS)
@router.api_route("/{name}/{rest:path}", methods=METHODS)
async def refuse(name: PathName, request: Call) -> Response:
    """404 that names the data set."""
    names = ", ".join(request.app.state.further) or "none"
    raise UnknownDataSet(f"Invalid path: expected /d/NAME/ with the name of a data set ({names}), got {name[:64]!r}")
