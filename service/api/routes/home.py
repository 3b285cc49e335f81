"""`/`: a page without a key that says what runs here. It shows no figure of the service."""

from __future__ import annotations

from importlib import metadata, resources
from string import Template

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from service.api.dependencies import TheService
from service.api.door.route import Route
from service.api.operations import GetReadiness
from service.base.errors import NotReady

# The page has no script, and no other page may show it in a frame.
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_PAGE = Template((resources.files("service.api") / "pages" / "home.html").read_text("utf-8"))

router = APIRouter(route_class=Route, include_in_schema=False)


@router.get("/")
async def get_home(serving: TheService) -> Response:
    """Version, readiness and links."""
    try:
        await serving.operate(GetReadiness())
        state, style = "ready", "ready"
    except NotReady:
        state, style = "not ready yet", "waits"
    page = _PAGE.substitute(version=metadata.version("nearfield"), state=state, style=style)
    return HTMLResponse(page, headers=_HEADERS)
