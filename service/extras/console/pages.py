"""Makes the pages from templates. Every value is escaped: ids of users and items are text that strangers choose."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable
from importlib import metadata, resources
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jinja2
import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from service.api.serving import Serving
from service.base.errors import ServiceError
from service.engine.queries.catalog_queries import GetTitles, ItemTitles
from service.extras.console import static_files

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src"
    " 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: browsers then send forms with `Origin: null`, which `SiteCheck` refuses.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
NO_SESSION = ""  # the token of pages without forms


def when(seconds: float | None) -> str:
    """A time in UTC for people; times beyond the calendar as a number."""
    try:
        return "—" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"


def number(value: float | None) -> str:
    """A number in at most five digits, whole ones with commas."""
    if value is None:
        return "—"
    return f"{int(value):,}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.5g}"


def lasting(seconds: float) -> str:
    """A span of time in the unit that people would choose."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} seconds"


def percent(share: float | None) -> str:
    """A share in percent."""
    return "—" if share is None else f"{100 * share:.3g} %"


_templates = jinja2.Environment(
    autoescape=True,
    # Other extras may add pages.
    loader=jinja2.FileSystemLoader(sorted(Path(str(resources.files("service.extras"))).glob("*/templates"))),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_templates.filters |= {"when": when, "number": number, "lasting": lasting, "percent": percent}
_templates.filters |= {"part_of_url": lambda text: quote(str(text), safe="")}
_templates.globals |= {"static": static_files.address, "version": metadata.version("nearfield")}


class Part(NamedTuple):
    """A part of a page: the answer to a query, or the text of the error that came instead."""

    value: Any = None
    error: str | None = None


async def part(answer: Awaitable[bytes], kind: Any) -> Part:
    """An answer of `Serving` as a struct of `kind`; an error of the service becomes text in the page."""
    try:
        return Part(msgspec.json.decode(await answer, type=kind))
    except ServiceError as error:
        return Part(error=f"{error.title}: {error}")


async def titles_of(serving: Serving, items: Iterable[str]) -> dict[str, str]:
    """The titles of those of `items` that have one."""
    answer = await serving.answer(GetTitles(list(dict.fromkeys(items))))
    return msgspec.json.decode(answer, type=ItemTitles).titles


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page, or a part of one, for the session of `request`."""
    state = request.state
    shared = {
        "token": getattr(state, "token", NO_SESSION),
        "has_key": getattr(state, "has_key", False),
        "data_set": request.app.state.serving.settings.data_set,
        "root": root(request),
        "further": request.app.state.pages,
        "here": template.removesuffix(".html"),
    }
    return HTMLResponse(_templates.get_template(template).render(shared | values), status)


def root(request: Request) -> str:
    """The way from the address of `request` to the folder of the pages; empty for all but unknown addresses."""
    path: str = request.scope["path"]
    return "../" * (path.count("/") - 2)


def to(place: str, **query: str) -> RedirectResponse:
    """Go to another page of the console, by an address that also holds behind a proxy with a prefix."""
    text = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    return RedirectResponse(f"{place}?{text}" if text else place, 303)
