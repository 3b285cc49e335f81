"""`/docs`: a page to read and try the API. Its scripts are part of the service, so that it needs no internet."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from fastapi import APIRouter
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import FileResponse, Response

from service.api.door.route import Call, Route
from service.api.openapi.document import PATH as DOCUMENT
from service.api.openapi.document import encoded

PATH = "/docs"
FILES = ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png")
# A frame of another site could lead a user to try requests that change something.
_HEADERS = {"x-frame-options": "DENY", "x-content-type-options": "nosniff"}
# Relative addresses, because the service may have a prefix behind a proxy.
_SCRIPT, _STYLE, _ICON = (f"{PATH[1:]}/{name}" for name in FILES)

router = APIRouter(route_class=Route, include_in_schema=False)


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
