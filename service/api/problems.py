"""Errors as application/problem+json (RFC 9457), all of one shape and with the request id."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from gpu.base.errors import InvalidInput
from service.api.answers import Fault, ProblemDocument
from service.api.errors import BodyTooLarge, KeyRefused, MalformedBody
from service.base.errors import NotFound, NotReady, ServiceError
from service.base.validation import MAX_SHOWN, reason_of
from service.engine.queries.few_faults import LEFT_OUT, MAX_FAULTS

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:nearfield:problem:"
Headers = list[tuple[bytes, bytes]]
CLOSE = (b"connection", b"close")
BODIES = ("UsersBody", "AnonymousBody")  # of POST /recommend
_KINDS = {kind.status: kind for kind in (NotFound, BodyTooLarge, MalformedBody)}


def of_error(error: Exception, request_id: str) -> tuple[int, bytes, Headers] | None:
    """Status, body and extra headers for an error; None for an unforeseen one."""
    headers: Headers = []
    members: dict[str, Any] = {}
    match error:
        case ServiceError():
            status, slug, title, detail = error.status, error.slug, error.title, str(error)
            if error.retry_after_s is not None:
                headers.append((b"retry-after", str(error.retry_after_s).encode()))
            if isinstance(error, KeyRefused):
                headers += [(b"www-authenticate", one) for one in error.challenges]
            if error.closes:
                headers.append(CLOSE)
            if isinstance(error, NotReady) and error.fraction is not None:
                members |= {"reason": detail, "fraction": error.fraction}
        case RequestValidationError():
            refusals = error.errors()
            status, slug, title = 422, "invalid-request", "Invalid request"
            if any(refusal["type"] == "json_invalid" for refusal in refusals):
                status, slug, title = MalformedBody.status, MalformedBody.slug, MalformedBody.title
            # The first faults, and the number of the others; lists may have left out some of theirs.
            uncounted = {place_of(each): each["ctx"]["n_more"] for each in refusals if each["type"] == LEFT_OUT}
            faults = [Fault(place_of(each), reason_of(each)) for each in refusals if each["type"] != LEFT_OUT]
            n_left_out = max(0, len(faults) - MAX_FAULTS) + sum(uncounted.values())
            members["errors"] = faults[:MAX_FAULTS]
            detail = "; ".join(f"Invalid {fault.place}: {fault.error}" for fault in members["errors"])
            if n_left_out:
                members["errors_left_out"] = n_left_out
                detail += f"; and {n_left_out:,} more"
        case InvalidInput():  # the engine refuses a value, such as a hyperparameter out of range
            status, slug, title, detail = 422, "invalid-request", "Invalid request", str(error)
        case HTTPException():  # no route takes the request
            status, detail = error.status_code, str(error.detail)
            kind = _KINDS.get(status)
            title = kind.title if kind else HTTPStatus(status).phrase
            slug = kind.slug if kind else title.lower().replace(" ", "-")
            headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
        case _:
            return None
    return status, body(status, slug, title, detail, request_id, **members), headers


def body(status: int, slug: str, title: str, detail: str, request_id: str, **members: Any) -> bytes:
    """The document as JSON; `members` are optional fields of `ProblemDocument`."""
    return msgspec.json.encode(ProblemDocument(TYPE_PREFIX + slug, title, status, detail, request_id, **members))


def place_of(fault: Any) -> str:
    """The path of a value, without the name of the model against which the body was checked."""
    return ".".join(str(name)[:MAX_SHOWN] for name in fault["loc"] if name not in BODIES)


def of_crash(request_id: str) -> bytes:
    """The document of an unforeseen error. It has no details; the log has them under this request id."""
    detail = "The service failed; its log has the reason under this request_id."
    return body(ServiceError.status, ServiceError.slug, ServiceError.title, detail, request_id)
