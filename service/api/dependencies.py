"""What the routes share: types of path parameters, the runtime, and how an answer becomes a response."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
from fastapi import Depends, Path
from pydantic import AfterValidator, BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from service.api.problems import MEDIA_TYPE
from service.api.schemas import ProblemDocument
from service.errors import InvalidRequest, ServiceError
from service.runtime import Runtime
from service.storage.events import MAX_ID_BYTES, check_id

REFERENCE = "#/components/schemas/{name}"
DOCUMENTED: dict[str, Any] = {}
PERCENT_ENCODED_ID = "Percent-encoded, so any character may occur in it."


def decoded(segment: str) -> str:
    """One segment of the raw path as text; ValueError if it is not UTF-8."""
    return unquote(segment, errors="strict")


async def _runtime(request: Request) -> Runtime:  # not in a thread: it would cost more than the route
    runtime: Runtime = request.app.state.runtime
    return runtime


_PathId = Path(description=PERCENT_ENCODED_ID, min_length=1, max_length=MAX_ID_BYTES)
UserId = Annotated[str, BeforeValidator(decoded), AfterValidator(check_id), _PathId]
ItemId = Annotated[str, BeforeValidator(decoded), AfterValidator(check_id), _PathId]
PathName = Annotated[str, BeforeValidator(decoded)]
TheRuntime = Annotated[Runtime, Depends(_runtime)]


def reply(answer: Any, status: int = 200) -> Response:
    """`answer` as JSON."""
    return Response(msgspec.json.encode(answer), status, media_type="application/json")


def check_n(runtime: Runtime, n: int | None) -> None:
    """Return if so many results may be asked for.

    Raises:
        InvalidRequest: more than the setting `max_n`.
    """
    if n is not None and n > runtime.settings.max_n:
        raise InvalidRequest(f"Invalid n: expected 1 to {runtime.settings.max_n:,}, got {n:,}")


def answers(
    kind: Any, status: int = 200, description: str = "Answer", **errors: str
) -> dict[int | str, dict[str, Any]]:
    """What a route answers, for the OpenAPI document: `kind` (a struct, or a union of them) and the errors of its own.

    Args:
        kind: type of the answer; its schema goes to `DOCUMENTED`.
        errors: `http_404="…"` and the like.
    """
    schema = _schema(kind)
    content = {"application/json": {"schema": schema}}
    found: dict[int | str, dict[str, Any]] = {status: {"description": description, "content": content}}
    return found | {int(name.removeprefix("http_")): problem(text) for name, text in errors.items()}


def problem(description: str) -> dict[str, Any]:
    """One error of a route, for the OpenAPI document."""
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }


def _any(_: type) -> dict[str, Any]:
    return {"description": "Any JSON value"}


def _schema(kind: Any) -> dict[str, Any]:
    """A reference to the schema of `kind`, which is in `DOCUMENTED` then."""
    found, components = msgspec.json.schema_components([kind], schema_hook=_any, ref_template=REFERENCE)
    DOCUMENTED.update(components)
    return found[0]


_schema(ProblemDocument)
COMMON_ERRORS: dict[int | str, dict[str, Any]] = {
    400: problem("The request cannot be read"),
    401: problem("The key is missing or wrong"),
    403: problem("The key may not do this; or, while no key is set, a request of another site's page"),
    413: problem("The body is too long"),
    414: problem("The URL is too long; send long lists in the body of a POST"),
    415: problem("The body is not application/json"),
    422: problem("A value cannot be used"),
    429: problem("Over the rate limit; see Retry-After"),
    500: problem(ServiceError.title),
    503: problem("Not now; see Retry-After. Nothing acknowledged is lost"),
}
