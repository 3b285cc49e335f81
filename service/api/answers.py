"""The answers that only HTTP has; those of the engine are in `service.engine.queries`."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Struct, UnsetType

from service.api.parsers.elements import Rejection
from service.api.serving import Serving
from service.engine.queries.document_queries import ListedDocument
from service.storage.events import Fields


class Accepted(Struct):
    """The answer to `POST /ratings` and `POST /events`; `stream_id` is null if nothing was accepted.

    Attributes:
        skipped: how many of the accepted elements do not count, because their source had come further before; only
            with `X-Source`. Null: they are durable, but the service has not learned them yet, because others wait.
    """

    accepted: int
    rejected: list[Rejection]
    stream_id: str | None
    took_ms: float
    skipped: int | UnsetType | None = UNSET


class Written(Struct):
    """The answer to any other write. A read with `wait_for` = `stream_id` sees it."""

    stream_id: str


async def written(serving: Serving, fields: Fields) -> bytes:
    """Append an entry to the stream, and return its position as `Written`; raises what `Serving.append` raises."""
    return msgspec.json.encode(Written(str(await serving.append(fields))))


class ScenarioList(Struct):
    """All scenarios in order of names."""

    scenarios: list[ListedDocument]
    as_of: str


class Alive(Struct):
    """The answer of a running process."""

    status: str


class Fault(Struct):
    """One refused value: its path in the request, and the reason."""

    place: str
    error: str


class ProblemDocument(Struct):
    """An error, as application/problem+json (RFC 9457).

    Attributes:
        errors: the first ten refused values, if the problem is about values.
        errors_left_out: number of further refused values.
        reason, fraction: why the service is not ready, and how much of its start is done (0 to 1).
    """

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[Fault] | UnsetType = UNSET
    errors_left_out: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    fraction: float | UnsetType = UNSET
