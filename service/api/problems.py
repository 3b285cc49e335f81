"""Errors as application/problem+json (RFC 9457), all of one shape and with the request id."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from gpu.errors import InvalidInput
from service.api.errors import BodyTooLarge, MalformedBody, NotAuthorized
from service.api.parsers.few_faults import LEFT_OUT, MAX_FAULTS
from service.api.schemas.common_schemas import Fault, ProblemDocument
from service.api.schemas.list_schemas import AnonymousBody, UsersBody
from service.base.errors import NotFound, NotReady, ServiceError
from service.base.validation import MAX_SHOWN, reason_of
from service.jobs.errors import JobRunning

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:nearfield:problem:"
Headers = list[tuple[bytes, bytes]]
CLOSE = (b"connection", b"close")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")  # that a route may have
_OF_FRAMEWORK = "There was an error parsing the body"
UNREADABLE = "Invalid body: expected JSON in UTF-8, not nested too deep, got something else"
BODIES = (UsersBody.__name__, AnonymousBody.__name__)  # of POST /recommend
_KNOWN = {kind.status: kind for kind in (NotFound, BodyTooLarge, MalformedBody)}


def of_error(error: ServiceError, request_id: str) -> tuple[int, bytes, Headers]:
    """Status, body and extra headers for a `ServiceError`."""
    headers: Headers = []
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(error.retry_after_s).encode()))
    if error.status == NotAuthorized.status:
        headers.append((b"www-authenticate", b"X-API-Key"))
    if error.closes:
        headers.append(CLOSE)
    content = body(error.status, error.slug, error.title, str(error), request_id, **_members(error))
    return error.status, content, headers


def _members(error: ServiceError) -> dict[str, Any]:
    if isinstance(error, NotReady) and error.fraction is not None:
        return {"reason": str(error), "fraction": error.fraction}
    return {"job": error.job_id} if isinstance(error, JobRunning) else {}


def body(status: int, slug: str, title: str, detail: str, request_id: str, **members: Any) -> bytes:
    """The document as JSON; `members` are optional fields of `ProblemDocument`."""
    return msgspec.json.encode(ProblemDocument(TYPE_PREFIX + slug, title, status, detail, request_id, **members))


async def on_service_error(request: Request, error: Exception) -> Response:
    """Handler of `ServiceError`."""
    assert isinstance(error, ServiceError)  # noqa: S101 (tells the type checker)
    status, content, headers = of_error(error, request.state.request_id)
    return Response(content, status, {k.decode(): v.decode() for k, v in headers}, MEDIA_TYPE)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Handler of errors that the framework raises, such as 404 and 405."""
    assert isinstance(error, HTTPException)  # noqa: S101 (tells the type checker)
    known = _KNOWN.get(error.status_code)
    title = known.title if known else HTTPStatus(error.status_code).phrase
    slug = known.slug if known else title.lower().replace(" ", "-")
    detail = UNREADABLE if error.detail == _OF_FRAMEWORK else str(error.detail)
    content = body(error.status_code, slug, title, detail, request.state.request_id)
    headers = {"Allow": _allowed(request)} if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED else error.headers
    return Response(content, error.status_code, headers, MEDIA_TYPE)


def _allowed(request: Request) -> str:
    """`Allow` of a 405: the framework names the methods of one route, and not HEAD, which `Gateway` turns into GET."""
    scopes = {method: {**request.scope, "method": method} for method in METHODS}
    found = {
        method
        for method, scope in scopes.items()
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)
    }
    return ", ".join(sorted(found | {"HEAD"} if "GET" in found else found))


async def on_invalid_request(request: Request, error: Exception) -> Response:
    """Handler of refused parameters and bodies: 400 for a body that is not JSON, else 422 with a list of faults."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 (tells the type checker)
    found = error.errors()
    members = _members_of(found)
    if any(fault["type"] == "json_invalid" for fault in found):
        status, slug, title = MalformedBody.status, MalformedBody.slug, MalformedBody.title
    else:
        status, slug, title = 422, "invalid-request", "Invalid request"
    detail = "; ".join(f"Invalid {fault.place}: {fault.error}" for fault in members["errors"])
    if "errors_left_out" in members:
        detail += f"; and {members['errors_left_out']:,} more"
    content = body(status, slug, title, detail, request.state.request_id, **members)
    return Response(content, status, media_type=MEDIA_TYPE)


def _members_of(found: Sequence[Any]) -> dict[str, Any]:
    """The first faults and the number of the others."""
    uncounted = {_place(fault): fault["ctx"]["n_more"] for fault in found if fault["type"] == LEFT_OUT}
    faults = [Fault(_place(fault), reason_of(fault)) for fault in found if fault["type"] != LEFT_OUT]
    n_left_out = max(0, len(faults) - MAX_FAULTS) + sum(uncounted.values())
    return {"errors": faults[:MAX_FAULTS]} | ({"errors_left_out": n_left_out} if n_left_out else {})


def _place(fault: Any) -> str:
    """The path of a value, without the name of the model against which the body was checked."""
    return ".".join(str(name)[:MAX_SHOWN] for name in fault["loc"] if name not in BODIES)


async def on_invalid_input(request: Request, error: Exception) -> Response:
    """Handler of values that the engine refuses, such as a hyperparameter out of range."""
    assert isinstance(error, InvalidInput)  # noqa: S101 (tells the type checker)
    content = body(422, "invalid-request", "Invalid request", str(error), request.state.request_id)
    return Response(content, 422, media_type=MEDIA_TYPE)


async def on_crash(request: Request, error: Exception) -> Response:
    """Handler of all other exceptions."""
    return Response(of_crash(request.state.request_id), ServiceError.status, media_type=MEDIA_TYPE)


def of_crash(request_id: str) -> bytes:
    """The document of an unforeseen error. It has no details; the log has them under this request id."""
    detail = "The service failed; its log has the reason under this request_id."
    return body(ServiceError.status, ServiceError.slug, ServiceError.title, detail, request_id)
