"""Pages in the browser that need no key: `/`, which says what runs here, and `/docs`, to read and try the API.

They show no figure of the service. The scripts of `/docs` are part of the service, so that it needs no internet.
"""

from __future__ import annotations

from importlib import metadata, resources
from pathlib import Path
from string import Template

from fastapi import APIRouter
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import FileResponse, HTMLResponse, Response

from service.api.dependencies import TheService
from service.api.door.route import Call, Route
from service.api.openapi.document import PATH as DOCUMENT
from service.api.openapi.document import encoded
from service.api.operations import GetReadiness
from service.base.errors import NotReady

PATH = "/docs"
FILES = ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png")
# A frame of another site could lead a user to try requests that change something.
_HEADERS = {"x-frame-options": "DENY", "x-content-type-options": "nosniff"}
# Relative addresses, because the service may have a prefix behind a proxy.
_SCRIPT, _STYLE, _ICON = (f"{PATH[1:]}/{name}" for name in FILES)

# The page at / has no script, and no other page may show it in a frame.
_HOME_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_HOME = Template((resources.files("service.api") / "pages" / "home.html").read_text("utf-8"))

router = APIRouter(route_class=Route, include_in_schema=False)


@router.get("/")
async def get_home(serving: TheService) -> Response:
    """Version, readiness and links."""
    try:
        await serving.operate(GetReadiness())
        state, style = "ready", "ready"
    except NotReady:
        state, style = "not ready yet", "waits"
    page = _HOME.substitute(version=metadata.version("nearfield"), state=state, style=style)
    return HTMLResponse(page, headers=_HOME_HEADERS)


@router.get(DOCUMENT)
async def get_document(request: Call) -> bytes:
    """The OpenAPI document."""
    return await encoded(request.app, request.app.gateway.keys)


@router.get(PATH)
async def get_docs() -> Response:
    """The page; the browser then loads its scripts and styles."""
    page = get_swagger_ui_html(
        openapi_url=DOCUMENT[1:],
        title="Nearfield",
        swagger_js_url=_SCRIPT,
        swagger_css_url=_STYLE,
        swagger_favicon_url=_ICON,
        swagger_ui_parameters={"validatorUrl": None},  # by default the page asks a server on the internet
    )
    page.headers.update(_HEADERS)
    return page


def _add_file(name: str) -> None:
    path = Path(str(resources.files("fastapi_offline"))) / "static" / name

    @router.get(f"{PATH}/{name}")
    async def file() -> Response:
        return FileResponse(path)


for _name in FILES:
    _add_file(_name)
