"""`/console/login` and `/console/logout`: a key that opens /admin/* begins a session."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheKeys
from service.api.door.auth import ADMIN_PREFIX
from service.api.door.credentials import Credentials
from service.api.door.route import Route
from service.api.errors import Forbidden, NotAuthorized
from service.base.errors import TooManyRequests
from service.engine import fairness
from service.extras.console import visit
from service.extras.console.pages import page, to
from service.extras.console.visit import console_router

START = "overview"
entry = APIRouter(route_class=Route, include_in_schema=False)
router = console_router()


@entry.get("/console")
async def enter() -> Response:
    """The first page. All others have addresses of one depth, so that links between them can be relative."""
    return to(f"console/{START}")


@router.get("/")
async def enter_folder() -> Response:
    """The first page."""
    return to(START)


@router.get("/login")
async def get_login(request: Request, keys: TheKeys) -> Response:
    """The form; the first page if no key is needed."""
    return to(START) if keys.is_open(ADMIN_PREFIX) else page(request, "login.html", error=None)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Begin a session, if the key is one that the admin routes would take; see `Credentials` for wrong ones."""
    key = request.state.form.get("key", "").encode()
    credentials: Credentials = request.app.gateway.credentials
    try:
        credentials.check("POST", ADMIN_PREFIX, key, fairness.current.get().address)
    except (NotAuthorized, Forbidden, TooManyRequests) as error:
        refused = page(request, "login.html", error.status, error=f"{error.title}: {error}")
        if isinstance(error, TooManyRequests):
            refused.headers["retry-after"] = str(error.retry_after_s)
        return refused
    response = to(START)
    visit.begin(request, response, await asyncio.to_thread(request.app.state.sessions.begin, key))
    return response


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session."""
    response = to("login")
    await visit.end(request, response)
    return response
