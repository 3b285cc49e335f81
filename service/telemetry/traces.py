"""`Tracer`: records the spans of one process, each when its work is over.

Only `service.extras.traces.trace_export` knows OpenTelemetry, and it is imported only if the setting `traces` is on.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import util
from typing import Protocol

from service.base.errors import InvalidSetting
from service.settings.settings import Settings, otel_variables
from service.telemetry.span import Attributes, Span
from service.telemetry.trace_context import Sampling, Trace

PACKAGES = "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"  # of the extra `traces`
STOP_S = 1.5  # seconds that the last spans get to be sent: less than what a process of several has to stop


class Exporter(Protocol):
    """Sends spans; see `service.extras.traces.trace_export`."""

    on_dropped: Callable[[str, int], None]

    def add(self, span: Span) -> None:
        """Take a span; never waits."""

    def stop(self, timeout_s: float) -> None:
        """Send what waits."""


class Tracer:
    """Samples and records in one process. Any thread may record.

    Attributes:
        begin, rare: see `Sampling`.
        add: takes a span that is over.
    """

    def __init__(self, sampling: Sampling, exporter: Exporter) -> None:
        self.begin, self.rare = sampling.begin, sampling.rare
        self.add, self._exporter = exporter.add, exporter

    def record(
        self,
        name: str,
        trace: Trace,
        seconds: float,
        attributes: Attributes,
        *,
        links: Sequence[Trace] = (),
        error: str | None = None,
        is_request: bool = False,
    ) -> None:
        """Record a span that ends now and has taken `seconds`."""
        now = time.time_ns()
        self.add(Span(name, trace, now - int(seconds * 1e9), now, attributes, links, error, is_request))

    def count_dropped(self, count: Callable[[str, int], None]) -> None:
        """Call `count` with a reason and a number of spans whenever some get lost."""
        self._exporter.on_dropped = count


class _Present:
    """The tracer of this process, as a logger is one of the process."""

    tracer: Tracer | None = None


def active() -> Tracer | None:
    """The tracer of this process; None if `traces` is off. Ask when a part is made, not for each request."""
    return _Present.tracer


def check(settings: Settings) -> None:
    """Check before the start what traces need, and load it once for all processes.

    Raises:
        InvalidSetting: the extra is not installed, or a variable of OpenTelemetry cannot be used.
    """
    if not _is_on(settings):
        return
    for package in PACKAGES:
        if not _is_there(package):
            raise InvalidSetting(
                f"Invalid traces: expected the package {package}, got none; install nearfield with the extra traces"
                " (pip install '.[traces]' in a checkout)"
            )
    variables = otel_variables()
    Sampling.of(variables)
    importlib.import_module("service.extras.traces.trace_export").check(variables)


@contextlib.contextmanager
def running(settings: Settings, process: str) -> Iterator[None]:
    """Record in this process, under its name, if `traces` is on; at the end send what waits."""
    if not _is_on(settings):
        yield
        return
    variables = otel_variables()
    exporter: Exporter = importlib.import_module("service.extras.traces.trace_export").SpanExport(variables, process)
    _Present.tracer = Tracer(Sampling.of(variables), exporter)
    try:
        yield
    finally:
        _Present.tracer = None
        exporter.stop(STOP_S)


def error_of(error: BaseException) -> str:
    """The kind of an error, without its text, which may quote a request."""
    return type(error).__name__


def _is_on(settings: Settings) -> bool:
    """Whether this service records; OpenTelemetry's own switch turns it off too."""
    return settings.traces and otel_variables().get("OTEL_SDK_DISABLED", "").lower() != "true"


def _is_there(package: str) -> bool:
    with contextlib.suppress(ModuleNotFoundError):  # a package around it is missing
        return util.find_spec(package) is not None
    return False
