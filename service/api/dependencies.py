"""Shared by the routes: types of path parameters, access to the service, and responses."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Header, Path
from pydantic import AfterValidator, BeforeValidator
from starlette.requests import Request

from service.api.answers import ProblemDocument
from service.api.door.auth import Keys
from service.api.openapi.components import component, component_of, reference_to
from service.api.parsers.bodies import JSON, NDJSON
from service.api.problems import MEDIA_TYPE
from service.api.scenarios import Scenarios
from service.api.serving import Serving
from service.base.errors import InvalidRequest, ServiceError
from service.base.ids import MAX_ID_BYTES, check_id
from service.engine import fairness
from service.engine.queries.fields import Fields
from service.engine.state.sources import MAX_GAP
from service.storage.events import MAX_EVENT_ID_LENGTH
from service.storage.sources import MAX_OFFSET, Source

GONE = "The model of the cursor is not live any more"
PERCENT_ENCODED_ID = "Percent-encoded, so any character may occur in it."


def decoded(segment: str) -> str:
    """One segment of the raw path as text; ValueError if it is not UTF-8."""
    return unquote(segment, errors="strict")


def serving_of(request: Request) -> Serving:
    """The service behind a request."""
    serving: Serving = request.app.state.serving
    return serving


_PathId = Path(description=PERCENT_ENCODED_ID, min_length=1, max_length=MAX_ID_BYTES)
UserId = Annotated[str, BeforeValidator(decoded), AfterValidator(check_id), _PathId]
ItemId = Annotated[str, BeforeValidator(decoded), AfterValidator(check_id), _PathId]
EventKey = Annotated[
    str,
    BeforeValidator(decoded),
    AfterValidator(check_id),
    Path(
        description="The `event_id` that the event was posted with, percent-encoded.",
        min_length=1,
        max_length=MAX_EVENT_ID_LENGTH,
    ),
]
DocumentName = Annotated[str, BeforeValidator(decoded), AfterValidator(check_id), _PathId]
PathName = Annotated[str, BeforeValidator(decoded)]
TheService = Annotated[Serving, Depends(serving_of)]


def scenarios_of(request: Request) -> Scenarios:
    """The scenarios that the application has read."""
    scenarios: Scenarios = request.app.state.scenarios
    return scenarios


TheScenarios = Annotated[Scenarios, Depends(scenarios_of)]


def keys_of(request: Request) -> Keys:
    """The keys of the application."""
    keys: Keys = request.app.gateway.keys
    return keys


TheKeys = Annotated[Keys, Depends(keys_of)]


SourceName = Annotated[
    str | None,
    AfterValidator(lambda name: None if name is None else check_id(name)),
    Header(
        alias="X-Source",
        description="Where a batch comes from that may be delivered again; with X-Offset. Each key has its own"
        " sources. A queue that is made again needs another name, such as one with its id.",
    ),
]
SourceOffset = Annotated[
    int | None,
    Header(
        alias="X-Offset",
        ge=0,
        le=MAX_OFFSET,
        description="Of its last message; a batch up to an earlier one is skipped, and one that is more than"
        f" {MAX_GAP:,} above it is refused.",
    ),
]


def source_of(name: str | None, offset: int | None, keys: Keys) -> Source | None:
    """The source that the headers of a batch name; None if they name none.

    Raises:
        InvalidRequest: one of the two headers is missing.
    """
    if (name is None) != (offset is None):
        raise InvalidRequest("Invalid X-Source: expected X-Source and X-Offset together, got one of them")
    if name is None or offset is None:
        return None
    return Source(name, offset, keys.name_of(fairness.current.get().key))


def check_n(serving: Serving, n: int | None) -> None:
    """Check that a request may ask for `n` results.

    Raises:
        InvalidRequest: `n` is greater than the setting `max_n`.
    """
    if n is not None and n > serving.settings.max_n:
        raise InvalidRequest(f"Invalid n: expected 1 to {serving.settings.max_n:,}, got {n:,}")


def n_listed(serving: Serving, asked: Fields[Any]) -> int:
    """The `n` of a listing: what the request names, else the default as far as the setting `max_n` allows it.

    Raises:
        InvalidRequest: see `check_n`.
    """
    n: int = getattr(asked, "n")  # noqa: B009 (a field that `takes` has added)
    if "n" not in asked.model_fields_set:
        return min(n, serving.settings.max_n)
    check_n(serving, n)
    return n


def answers(
    kind: Any, status: int = 200, description: str = "Answer", **errors: str
) -> dict[int | str, dict[str, Any]]:
    """The answers of a route for the OpenAPI document: a struct or a union of structs, and the errors of the route.

    Args:
        kind: type of the answer; its schema is added to `DOCUMENTED`.
        status: HTTP status of the answer.
        description: description of the answer.
        errors: descriptions by status, such as `http_404="…"`.
    """
    content = {"application/json": {"schema": component_of(kind)}}
    responses: dict[int | str, dict[str, Any]] = {status: {"description": description, "content": content}}
    return responses | {int(name.removeprefix("http_")): problem(text) for name, text in errors.items()}


def durable(kind: Any, **errors: str) -> dict[int | str, dict[str, Any]]:
    """The `answers` of a route that may add to what the data set holds."""
    full = "The data set holds as much as a quota allows; nothing was written"
    return answers(kind, 202, "Durable", http_507=full, **errors)


def elements(name: str, element: dict[str, Any], **limits: int) -> dict[str, Any]:
    """The body of a route that takes elements, for the OpenAPI document.

    Args:
        name: of the schema of one element, which is added to `DOCUMENTED`.
        element: this schema.
        limits: of the array.
    """
    reference = component(name, element)
    lines = {"type": "string", "description": f"One {name} as JSON in each line."}
    several = {"oneOf": [reference, {"type": "array", "items": reference, **limits}]}
    content = {JSON.decode(): {"schema": several}, NDJSON.decode(): {"schema": lines}}
    return {"requestBody": {"required": True, "content": content}}


def problem(description: str) -> dict[str, Any]:
    """One error of a route, for the OpenAPI document."""
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": reference_to("ProblemDocument")}},
    }


component_of(ProblemDocument)
COMMON_ERRORS: dict[int | str, dict[str, Any]] = {
    400: problem("The request cannot be read"),
    401: problem("The key is missing or wrong"),
    403: problem("The key does not permit this; or no key is set, and a web page of another site made the request"),
    413: problem("The body is too long"),
    414: problem("The URL is too long; send long lists in the body of a POST"),
    415: problem("The type or the encoding of the body is not accepted"),
    422: problem("A value cannot be used"),
    429: problem("More requests than a rate limit, or more training than its quota allows; see Retry-After"),
    500: problem(ServiceError.title),
    503: problem("The service cannot answer now; see Retry-After. No acknowledged rating is lost"),
}
