"""Errors as application/problem+json (RFC 9457), all of one shape and with the request id."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from gpu.base.errors import InvalidInput
from service.api.answers import Fault, ProblemDocument
from service.api.errors import BodyTooLarge, MalformedBody, NotAuthorized
from service.base.errors import NotFound, NotReady, ServiceError
from service.base.validation import MAX_SHOWN, reason_of
from service.engine.queries.few_faults import LEFT_OUT, MAX_FAULTS
from service.jobs.errors import JobRunning

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:nearfield:problem:"
Headers = list[tuple[bytes, bytes]]
CLOSE = (b"connection", b"close")
BODIES = ("UsersBody", "AnonymousBody")  # of POST /recommend
_KNOWN = {kind.status: kind for kind in (NotFound, BodyTooLarge, MalformedBody)}


def of_error(error: Exception, request_id: str) -> tuple[int, bytes, Headers] | None:
    """Status, body and extra headers for an error; None for an unforeseen one."""
    match error:
        case ServiceError():
            return _of_service(error, request_id)
        case RequestValidationError():
            return _of_values(error, request_id)
        case InvalidInput():  # the engine refuses a value, such as a hyperparameter out of range
            return 422, body(422, "invalid-request", "Invalid request", str(error), request_id), []
        case HTTPException():  # no route takes the request
            known = _KNOWN.get(error.status_code)
            title = known.title if known else HTTPStatus(error.status_code).phrase
            slug = known.slug if known else title.lower().replace(" ", "-")
            headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
            return error.status_code, body(error.status_code, slug, title, str(error.detail), request_id), headers
    return None


def _of_service(error: ServiceError, request_id: str) -> tuple[int, bytes, Headers]:
    headers: Headers = []
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(error.retry_after_s).encode()))
    if error.status == NotAuthorized.status:
        headers.append((b"www-authenticate", b"X-API-Key"))
    if error.closes:
        headers.append(CLOSE)
    members: dict[str, Any] = {"job": error.job_id} if isinstance(error, JobRunning) else {}
    if isinstance(error, NotReady) and error.fraction is not None:
        members = {"reason": str(error), "fraction": error.fraction}
    return error.status, body(error.status, error.slug, error.title, str(error), request_id, **members), headers


def body(status: int, slug: str, title: str, detail: str, request_id: str, **members: Any) -> bytes:
    """The document as JSON; `members` are optional fields of `ProblemDocument`."""
    return msgspec.json.encode(ProblemDocument(TYPE_PREFIX + slug, title, status, detail, request_id, **members))


def _of_values(error: RequestValidationError, request_id: str) -> tuple[int, bytes, Headers]:
    """400 for a body that is not JSON, else 422 with a list of faults."""
    found = error.errors()
    members = _members_of(found)
    if any(fault["type"] == "json_invalid" for fault in found):
        status, slug, title = MalformedBody.status, MalformedBody.slug, MalformedBody.title
    else:
        status, slug, title = 422, "invalid-request", "Invalid request"
    detail = "; ".join(f"Invalid {fault.place}: {fault.error}" for fault in members["errors"])
    if "errors_left_out" in members:
        detail += f"; and {members['errors_left_out']:,} more"
    return status, body(status, slug, title, detail, request_id, **members), []


def _members_of(found: Sequence[Any]) -> dict[str, Any]:
    """The first faults and the number of the others."""
    uncounted = {_place(fault): fault["ctx"]["n_more"] for fault in found if fault["type"] == LEFT_OUT}
    faults = [Fault(_place(fault), reason_of(fault)) for fault in found if fault["type"] != LEFT_OUT]
    n_left_out = max(0, len(faults) - MAX_FAULTS) + sum(uncounted.values())
    return {"errors": faults[:MAX_FAULTS]} | ({"errors_left_out": n_left_out} if n_left_out else {})


def _place(fault: Any) -> str:
    """The path of a value, without the name of the model against which the body was checked."""
    return ".".join(str(name)[:MAX_SHOWN] for name in fault["loc"] if name not in BODIES)


def of_crash(request_id: str) -> bytes:
    """The document of an unforeseen error. It has no details; the log has them under this request id."""
    detail = "The service failed; its log has the reason under this request_id."
    return body(ServiceError.status, ServiceError.slug, ServiceError.title, detail, request_id)
