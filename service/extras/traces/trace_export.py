"""`SpanExport`: sends spans by OTLP (HTTP, protobuf). Needs the extra `traces`; no other module knows OpenTelemetry.

The SDK's processor holds spans in a bounded queue, and a thread of its own sends them, so a collector that hangs or is
away delays nobody. What does not fit into the queue is dropped here and counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from service.base import threads
from service.settings.errors import InvalidSetting
from service.telemetry.span import Span

SERVICE = "nearfield"  # unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES has another name
QUEUE, MAX_QUEUE = "OTEL_BSP_MAX_QUEUE_SIZE", 2048  # spans that may wait, as in the specification
BATCH, MAX_BATCH = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512
FULL, NOT_DELIVERED = "queue-full", "not-delivered"  # reasons for dropped spans
_PROTOCOLS = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


def check(variables: Mapping[str, str]) -> None:
    """Check the variables of OpenTelemetry that concern sending.

    Raises:
        InvalidSetting: one cannot be used.
    """
    for name in _PROTOCOLS:
        if (protocol := variables.get(name, "http/protobuf")) != "http/protobuf":
            raise InvalidSetting(f"Invalid variable {name}: expected http/protobuf, got {protocol!r}")
    most, batch = number_in(variables, QUEUE, MAX_QUEUE), number_in(variables, BATCH, MAX_BATCH)
    if batch > most:
        raise InvalidSetting(f"Invalid variable {BATCH}: expected at most {QUEUE} ({most}), got {batch}")
    try:
        OTLPSpanExporter()
    except Exception as error:  # of several kinds: the SDK documents none
        raise InvalidSetting(f"Invalid variables OTEL_EXPORTER_OTLP_…: {error}") from None


class SpanExport:
    """Sends the spans of one process. Any thread may add.

    Attributes:
        on_dropped: called with a reason and a number of spans that got lost, from any thread.
    """

    def __init__(self, variables: Mapping[str, str], process: str) -> None:
        """Start the thread that sends; `process` is the name of this one among those of the service."""
        self.on_dropped: Callable[[str, int], None] = lambda reason, n: None
        self._most = number_in(variables, QUEUE, MAX_QUEUE)
        self._n_waiting, self._lock = 0, threading.Lock()
        version = metadata.version("nearfield")
        ours = {"service.name": SERVICE, "service.version": version, "nearfield.process": process}
        self._resource = Resource.create({**ours, **OTELResourceDetector().detect().attributes})
        self._scope = InstrumentationScope("nearfield", version)
        batch = number_in(variables, BATCH, MAX_BATCH)
        self._processor = BatchSpanProcessor(_Sender(self._sent), self._most, max_export_batch_size=batch)

    def add(self, span: Span) -> None:
        """Queue a span; it is dropped if the queue is full."""
        with self._lock:
            is_full = self._n_waiting >= self._most
            self._n_waiting += not is_full
        if is_full:
            self.on_dropped(FULL, 1)
            return
        trace, error = span.trace, span.error
        readable = ReadableSpan(
            span.name,
            context_of(trace.trace_id, trace.span_id),
            parent=context_of(trace.trace_id, trace.parent_id) if trace.parent_id else None,
            resource=self._resource,
            attributes=dict(span.attributes) if error is None else {**span.attributes, "error.type": error},
            links=[Link(context_of(other.trace_id, other.span_id)) for other in span.links],
            kind=SpanKind.SERVER if span.is_request else SpanKind.INTERNAL,
            status=Status(StatusCode.UNSET if error is None else StatusCode.ERROR),
            start_time=span.began_ns,
            end_time=span.ended_ns,
            instrumentation_scope=self._scope,
        )
        self._processor.on_end(readable)

    def stop(self, timeout_s: float) -> None:
        """Send what waits, for at most `timeout_s`; what is left then is lost with the process."""
        threads.helper("traces", self._processor.shutdown).join(timeout_s)

    def _sent(self, n_spans: int, *, is_delivered: bool) -> None:
        with self._lock:
            self._n_waiting -= n_spans
        if not is_delivered:
            self.on_dropped(NOT_DELIVERED, n_spans)


class _Sender(SpanExporter):
    """The exporter of the SDK; tells how many spans have left the queue, and whether they were delivered."""

    def __init__(self, sent: Callable[..., None]) -> None:
        self._exporter, self._sent = OTLPSpanExporter(), sent

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Called by the processor, on its thread."""
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            self._sent(len(spans), is_delivered=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        """Called by the processor."""
        self._exporter.shutdown()


def context_of(trace_id: int, span_id: int) -> SpanContext:
    """A span as the SDK names it."""
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


def number_in(variables: Mapping[str, str], name: str, default: int) -> int:
    """The number in a variable; raises `InvalidSetting` if it is none from 1 on."""
    text = variables.get(name, str(default))
    if not text.isdecimal() or int(text) < 1:
        raise InvalidSetting(f"Invalid variable {name}: expected a number from 1, got {text!r}")
    return int(text)
