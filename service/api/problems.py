"""Errors as application/problem+json (RFC 9457), one shape for all of them, always with the request id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gpu.errors import InvalidInput
from service.api.few_faults import LEFT_OUT, MAX_FAULTS
from service.api.schemas import AnonymousBody, Fault, ProblemDocument, UsersBody
from service.errors import BodyTooLarge, JobRunning, MalformedBody, NotAuthorized, NotFound, NotReady, ServiceError
from service.validation import MOST_SHOWN, reason_of

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:nearfield:problem:"
Headers = list[tuple[bytes, bytes]]
CLOSE = (b"connection", b"close")
BODIES = (UsersBody.__name__, AnonymousBody.__name__)  # of POST /recommend
_KNOWN = {kind.status: kind for kind in (NotFound, BodyTooLarge, MalformedBody)}


def of_error(error: ServiceError, request_id: str) -> tuple[int, bytes, Headers]:
    """Status, body and extra headers for an error that the service raised on purpose."""
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
    """The document itself; `members` are the further ones of `ProblemDocument`."""
    return msgspec.json.encode(ProblemDocument(TYPE_PREFIX + slug, title, status, detail, request_id, **members))


async def on_service_error(request: Request, error: Exception) -> Response:
    """Handler of `ServiceError`."""
    assert isinstance(error, ServiceError)  # noqa: S101 (tells the type checker)
    status, content, headers = of_error(error, request.state.request_id)
    return Response(content, status, {k.decode(): v.decode() for k, v in headers}, MEDIA_TYPE)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Handler of what the framework raises: 404, 405 and their like."""
    assert isinstance(error, HTTPException)  # noqa: S101 (tells the type checker)
    known = _KNOWN.get(error.status_code)
    title = known.title if known else HTTPStatus(error.status_code).phrase
    slug = known.slug if known else title.lower().replace(" ", "-")
    content = body(error.status_code, slug, title, str(error.detail), request.state.request_id)
    return Response(content, error.status_code, _with_head(error.headers), MEDIA_TYPE)


def _with_head(headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """The methods of a 405: the framework does not know that what it takes as GET may come as HEAD (`door`)."""
    allowed = (headers or {}).get("Allow", "").split(", ")
    return {**(headers or {}), "Allow": ", ".join([*allowed, "HEAD"])} if "GET" in allowed else headers


async def on_invalid_request(request: Request, error: Exception) -> Response:
    """Handler of refused parameters and bodies: 400 for what is not JSON at all, else 422, each fault listed."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 (tells the type checker)
    given = error.errors()
    members = _members_of(given)
    if any(fault["type"] == "json_invalid" for fault in given):
        status, slug, title = MalformedBody.status, MalformedBody.slug, MalformedBody.title
    else:
        status, slug, title = 422, "invalid-request", "Invalid request"
    detail = "; ".join(f"Invalid {fault.place}: {fault.error}" for fault in members["errors"])
    if "errors_left_out" in members:
        detail += f"; and {members['errors_left_out']:,} more"
    content = body(status, slug, title, detail, request.state.request_id, **members)
    return Response(content, status, media_type=MEDIA_TYPE)


def _members_of(given: Sequence[Any]) -> dict[str, Any]:
    """The first faults, and how many more there are; of a choice of bodies each fault comes twice."""
    told = {(_place(fault), reason_of(fault)): None for fault in given if fault["type"] != LEFT_OUT}
    uncounted = {_place(fault): fault["ctx"]["n_more"] for fault in given if fault["type"] == LEFT_OUT}
    faults = [Fault(place, reason) for place, reason in told]
    n_left_out = max(0, len(faults) - MAX_FAULTS) + sum(uncounted.values())
    return {"errors": faults[:MAX_FAULTS]} | ({"errors_left_out": n_left_out} if n_left_out else {})


def _place(fault: Any) -> str:
    """Where a value stands; which of two bodies it was taken for is of no interest to who sent it."""
    return ".".join(str(name)[:MOST_SHOWN] for name in fault["loc"] if name not in BODIES)


async def on_invalid_input(request: Request, error: Exception) -> Response:
    """Handler of what the engine refuses, such as a hyperparameter out of range."""
    assert isinstance(error, InvalidInput)  # noqa: S101 (tells the type checker)
    content = body(422, "invalid-request", "Invalid request", str(error), request.state.request_id)
    return Response(content, 422, media_type=MEDIA_TYPE)


async def on_crash(request: Request, error: Exception) -> Response:
    """Handler of everything else."""
    return Response(of_crash(request.state.request_id), ServiceError.status, media_type=MEDIA_TYPE)


def of_crash(request_id: str) -> bytes:
    """The document of an error that nobody foresaw: no details for the outside, the log has them under this id."""
    detail = "The service failed; its log says why, under this request_id."
    return body(ServiceError.status, ServiceError.slug, ServiceError.title, detail, request_id)
