"""Answers without what differs from run to run, and what differs between two of them."""

import functools
import json
import math
import re
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tests.service.api.corpus.wire import Answer, Request

DAY_S = 86_400.0
KEPT_HEADERS = (
    "access-control-allow-headers", "access-control-allow-methods", "access-control-allow-origin",
    "access-control-expose-headers", "access-control-max-age", "allow", "cache-control", "connection",
    "content-encoding", "content-type", "retry-after", "vary",
)  # fmt: skip
# Fields whose values depend on the machine or on the time; what they hold is not compared.
VOLATILE = frozenset((
    "took_ms", "request_id", "age_s", "uptime_s", "lag_s", "bytes", "secret", "key", "ends_with", "log", "stream",
    "backend", "last_used", "id", "job", "n_waiting", "fraction", "held",
))  # fmt: skip
_VERSION = re.compile(r"\b[a-z][a-z-]*-\d{8}T\d{6}-[0-9a-f]{4}\b")
_STREAM_ID = re.compile(r"\b(\d{13})-\d{1,4}\b")
_ID = re.compile(r"\b[0-9a-f]{12}\b")
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
RELATIVE, ABSOLUTE = 1e-4, 1e-5  # by which numbers may differ, between processors


def is_recent(seconds: float) -> bool:
    """Whether a time is that of this run."""
    return abs(seconds - time.time()) < DAY_S


def normal(value: Any, name: str = "") -> Any:
    """`value` of the field `name` without what differs from run to run."""
    if name == "reason":  # a queued job tells that no worker runs once the lease of the last one has ended
        return "<reason>"
    if name in VOLATILE and value is not None and not isinstance(value, bool):
        return f"<{name}>"
    if isinstance(value, dict):
        return {key: normal(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [normal(inner) for inner in value]
    if isinstance(value, str):
        return "<cursor>" if name == "next" else "<recommendation id>" if name == "recommendation_id" else text(value)
    if isinstance(value, float):
        return "<now>" if is_recent(value) else round(value, 6)
    if isinstance(value, int) and not isinstance(value, bool) and (is_recent(value) or is_recent(value / 1000)):
        return "<now>"
    return value


def text(value: str) -> str:
    """A text without positions, versions, ids and times of this run."""
    value = _VERSION.sub("<version>", value)
    value = _STREAM_ID.sub(lambda found: "<stream id>" if is_recent(int(found[1]) / 1000) else found[0], value)
    value = _TIME.sub(
        lambda found: "<time>" if is_recent(datetime.fromisoformat(found[0]).timestamp()) else found[0], value
    )
    return _ID.sub("<id>", value)


def shape(value: Any) -> Any:
    """Names and types of `value`; a list has those of all its elements, since the day decides which are explored."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [functools.reduce(both, map(shape, value))] if value else []
    return type(value).__name__


def both(one: Any, other: Any) -> Any:
    """A shape with the names of both; where types differ, with those of the first."""
    if isinstance(one, dict) and isinstance(other, dict):
        joined = {key: both(one[key], other[key]) for key in one.keys() & other.keys()}
        return other | one | joined
    if isinstance(one, list) and isinstance(other, list) and one and other:
        return [both(one[0], other[0])]
    return one or other


def expected(request: Request, answer: Answer) -> dict[str, Any]:
    """What the kept file says of an answer: all of it but what differs from run to run."""
    kept: dict[str, Any] = {"status": answer.status}
    headers = {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers}
    sent = next((value for name, value in request.headers if name.lower() == "x-request-id"), None)
    headers["x-request-id"] = "as sent" if answer.headers.get("x-request-id") == sent else "made"
    kept["headers"] = headers
    if not answer.body:
        return kept
    if "json" not in answer.headers.get("content-type", "") or "ndjson" in answer.headers.get("content-type", ""):
        return kept | {"body": "<not JSON>"}
    document = json.loads(answer.body)
    if isinstance(document, dict) and "openapi" in document:
        return kept | {"body": sorted(document)}
    made = normal(document)
    return kept | {"body": shape(made) if request.is_loose and answer.status < 300 else made}


def differences(was: Any, now: Any, place: str = "") -> Iterator[str]:
    """Where `now` differs from `was`, one line each."""
    if isinstance(was, dict) and isinstance(now, dict):
        for name in sorted(was.keys() | now.keys()):
            inner = f"{place}.{name}" if place else name
            yield from differences(was.get(name, "<absent>"), now.get(name, "<absent>"), inner)
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for index, (before, after) in enumerate(zip(was, now, strict=True)):
            yield from differences(before, after, f"{place}[{index}]")
    elif not _is_same(was, now):
        yield f"{place}: expected {json.dumps(was, ensure_ascii=False)}, got {json.dumps(now, ensure_ascii=False)}"


def _is_same(was: Any, now: Any) -> bool:
    if {type(was), type(now)} <= {int, float}:
        return math.isclose(was, now, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(was) is type(now) and was == now
