"""A collector of traces: the least that speaks OTLP over HTTP."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    """One span; ids are hexadecimal, as in `traceparent`."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    attributes: dict[str, Any]
    links: list[str]
    is_error: bool
    began_ns: int
    ended_ns: int
    resource: dict[str, Any]


class Collector:
    """Takes spans on a free port; while `may_answer` is not set it answers nothing."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.may_answer.wait(30)
                collector.spans += decoded(body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()

    def of(self, trace_id: str) -> dict[str, Received]:
        """The spans of a trace by name; the last one of equal names."""
        return {span.name: span for span in tuple(self.spans) if span.trace_id == trace_id}


def decoded(body: bytes) -> list[Received]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415 (it may be missing)
        ExportTraceServiceRequest,
    )

    found = []
    for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = values(resource_spans.resource.attributes)
        for scope in resource_spans.scope_spans:
            found += [
                Received(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.kind,
                    values(span.attributes),
                    [link.trace_id.hex() for link in span.links],
                    span.status.code == 2,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    resource,
                )
                for span in scope.spans
            ]
    return found


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
