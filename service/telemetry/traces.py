"""`Tracer`: records the spans of one process, each when its work is over.

The extra `service.extras.traces` sends them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from service.telemetry.span import Attributes, Span
from service.telemetry.trace_context import Sampling, Trace

STOP_S = 1.5  # seconds that the last spans get to be sent: less than what a process of several has to stop


class Exporter(Protocol):
    """Sends spans; see `service.extras.traces.trace_export`."""

    on_dropped: Callable[[str, int], None]

    def add(self, span: Span) -> None:
        """Take a span; never waits."""

    def stop(self, timeout_s: float) -> None:
        """Send what waits."""


Export = Callable[[Mapping[str, str], str], Exporter]


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


@contextlib.contextmanager
def running(variables: Mapping[str, str] | None, process: str, export: Export | None) -> Iterator[None]:
    """Record in this process, under its name; at the end send what waits.

    Args:
        variables: of OpenTelemetry, see `Settings.trace_variables`. None: nothing is recorded.
        process: the name of this process.
        export: makes what sends the spans of a process, from the variables of OpenTelemetry. None: nothing is recorded.
    """
    if variables is None or export is None:
        yield
        return
    exporter = export(variables, process)
    _Present.tracer = Tracer(Sampling.of(variables), exporter)
    try:
        yield
    finally:
        _Present.tracer = None
        exporter.stop(STOP_S)


def error_of(error: BaseException) -> str:
    """The kind of an error, without its text, which may quote a request."""
    return type(error).__name__
