"""`ConsoleRoute`: what each page needs: a session, the token of a form, errors as text, and the security headers."""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qsl

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.api import problems
from service.api.answers import ProblemDocument
from service.api.dependencies import TheService
from service.api.door import audit
from service.api.door.route import Call, Route
from service.api.door.site_check import check_fetch
from service.api.errors import Forbidden, NotAuthorized
from service.base.errors import InvalidRequest, NotFound
from service.engine.queries.forms import Id
from service.extras.console import pages
from service.extras.console.session import COOKIE, VISITOR_COOKIE, Session, Sessions, of_visitor
from service.storage.session_folder import SESSION_S

if TYPE_CHECKING:
    from service.extras import Page

LOGIN = "/console/login"
MAX_FIELDS = 200  # of a form; the longest has fewer than 40


class BadForm(Forbidden):
    """A form without the token of its session: of another site, or older than the session."""

    slug, title = "bad-form", "Form refused"


class ConsoleRoute(Route):
    """A route of the console. Handlers find `form`, and what the templates need, in `request.state`."""

    async def answer(self, call: Call) -> bytes | Response:
        """The page; also of an error that the API would tell in a document."""
        try:
            response = await self.visit(call)
        except Exception as error:
            problem = problems.of_error(error, call.request_id)
            if problem is None:
                raise
            status, content, headers = problem
            if call.headers.get("accept", "").startswith("application/json"):  # a script: as the API answers
                texts = {name.decode(): value.decode() for name, value in headers}
                response = Response(content, status, texts, problems.MEDIA_TYPE)
            else:
                document = msgspec.json.decode(content, type=ProblemDocument)
                template = "problem.html" if "hx-request" in call.headers else "error.html"
                response = pages.page(call, template, status, problem=document)
        response.headers.update(pages.HEADERS)
        return response

    async def visit(self, request: Call) -> Response:
        """The page, after the session and the token of a form were checked.

        Raises:
            NotAuthorized: a script without a session asks; a person is brought to the login.
            InvalidRequest: what was posted is no form.
            BadForm: it has not the token of the session.
            Exception: what the handler raises.
        """
        check_fetch(request.scope["raw_path"], dict(request.scope["headers"]))
        sessions = sessions_of(request)
        stored = sessions.of_cookies(request.cookies)
        session = of_visitor() if stored is None and request.method == "GET" else stored
        request.state.session = session
        if session is not None:
            request.state.token, request.state.has_key = session.token, not session.is_visitor
        if request.scope["path"] != LOGIN and not sessions.may_enter(session):
            audit.refuse()
            login = pages.root(request) + "login"
            if "hx-request" in request.headers:
                return Response(status_code=204, headers={"hx-redirect": login})
            if request.headers.get("accept", "").startswith("application/json"):
                raise NotAuthorized("Invalid session: expected a session that has signed in, got none; sign in")
            return pages.to(login)
        if request.method == "POST":
            try:
                fields = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
            except ValueError:
                raise InvalidRequest(f"Invalid form: expected at most {MAX_FIELDS} fields in UTF-8") from None
            form = request.state.form = dict(fields)
            expected, token = getattr(request.state, "token", None), form.pop("token", "")
            if expected is None or not hmac.compare_digest(expected.encode(), token.encode()):
                raise BadForm("Invalid token: expected that of your session, got another; open the page again")
        response = await super().answer(request)
        assert isinstance(response, Response)  # noqa: S101 (pages are no JSON)
        if stored is None and session is not None:
            begin(request, response, session)
        return response


def console_router() -> APIRouter:
    """A router for pages of the console."""
    return APIRouter(prefix="/console", route_class=ConsoleRoute, include_in_schema=False)


def page_of(name: str, values: Page) -> APIRouter:
    """A router with a page of another extra."""
    router = console_router()

    @router.get(f"/{name}")
    async def show(request: Request, serving: TheService, id: Annotated[Id | None, Query()] = None) -> Response:
        return pages.page(request, f"{name}.html", **await values(serving, id))

    return router


unknown = console_router()  # comes after all others


@unknown.get("/{rest:path}")
async def refuse(rest: str) -> None:
    """404 as a page."""
    raise NotFound(f"Invalid path: expected a page of the console, got {rest[:64]!r}")


def begin(request: Request, response: Response, session: Session) -> None:
    """Let the browser keep a session. Its path is that of the console, also of a data set or behind a proxy's prefix,
    because a cookie without one belongs to the folder of the address that sets it.
    """
    name = VISITOR_COOKIE if session.is_visitor else COOKIE
    set_cookie(request, response, name, session.text, SESSION_S)


async def end(request: Request, response: Response) -> None:
    """End the session of a request, for everyone who has its cookie, and let the browser forget it."""
    session: Session | None = request.state.session
    if session is not None and not session.is_visitor:
        await asyncio.to_thread(sessions_of(request).end, session)
    set_cookie(request, response, COOKIE, "", 0)


def set_cookie(request: Request, response: Response, name: str, value: str, max_age_s: int) -> None:
    """Let the browser keep a value for some seconds, and send it over HTTPS alone if it uses that."""
    # It may use HTTPS up to a proxy. A client that lies about it harms itself alone.
    headers = request.headers
    forwarded = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    secure = "https" in (request.url.scheme, forwarded) or headers.get("origin", "").startswith("https://")
    response.set_cookie(name, value, max_age_s, path=None, secure=secure, httponly=True, samesite="strict")


def sessions_of(request: Request) -> Sessions:
    """The sessions of the data set."""
    sessions: Sessions = request.app.state.sessions
    return sessions
