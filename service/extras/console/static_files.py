"""The scripts and styles of the console, all of them part of the service: a page loads nothing from other hosts."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import NamedTuple

from fastapi import APIRouter
from starlette.responses import Response

from service.api.dependencies import PathName
from service.api.door.route import Route
from service.base.errors import NotFound

_FOLDER = resources.files("service.extras.console") / "static"
_KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
_NAMES = (
    "console.css",
    "console.js",
    "curves.js",
    "htmx.min.js",
    "icon.svg",
    "parts.js",
    "uPlot.iife.min.js",
    "uPlot.min.css",
)

router = APIRouter(route_class=Route, prefix="/console/static", include_in_schema=False)


class _File(NamedTuple):
    content: bytes
    digest: str


_FILES: dict[str, _File] = {}
for _name in _NAMES:
    _content = (_FOLDER / _name).read_bytes()
    _FILES[_name] = _File(_content, hashlib.sha256(_content).hexdigest()[:12])


def address(name: str) -> str:
    """The address of a file for pages of the console. It changes with the content, so that browsers may keep it."""
    return f"static/{name}?v={_FILES[name].digest}"


@router.get("/{name}")
async def get_file(name: PathName) -> Response:
    """One file; it needs neither a key nor a session."""
    file = _FILES.get(name)
    if file is None:
        raise NotFound(f"Invalid path: expected a file of the console, got {name[:64]!r}")
    headers = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
    return Response(file.content, headers=headers, media_type=_KINDS[name.rpartition(".")[2]])
