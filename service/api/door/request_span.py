"""The span of a request: what is known of it without any text of the client."""

from __future__ import annotations

from service.telemetry.request_metrics import METHODS
from service.telemetry.span import Value
from service.telemetry.trace_context import Trace
from service.telemetry.traces import Tracer


def record(
    tracer: Tracer, trace: Trace, method: str, route: str, status: int, seconds: float, data_set: str = ""
) -> None:
    """Record an answered request: no path, query, header or body, which may name people.

    Args:
        tracer: of this process.
        trace: the span.
        method: as the client sent it; an invented one is not shown.
        route: the template of its path; one without a `/` at the beginning is none.
        status: of the answer.
        seconds: from its arrival to its answer.
        data_set: empty for the default one.
    """
    known = METHODS.get(method, "_OTHER")
    attributes: dict[str, Value] = {"http.request.method": known, "http.response.status_code": status}
    name = known
    if route.startswith("/"):
        attributes["http.route"] = route
        name = f"{known} {route}"
    if data_set:
        attributes["nearfield.data_set"] = data_set
    tracer.record(name, trace, seconds, attributes, error=str(status) if status >= 500 else None, is_request=True)
