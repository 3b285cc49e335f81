"""`SwapTrace`: records that a model goes live, as a part of the training that made it."""

from __future__ import annotations

import time
from collections.abc import Callable

from service.engine.readiness import MODELS, Stages
from service.storage.snapshots import version_names
from service.telemetry.trace_context import Trace
from service.telemetry.traces import active, error_of


class SwapTrace:
    """Records swaps. Without a tracer in this process it does nothing.

    Attributes:
        cause: the span of the training of a version; None if it is not known.
    """

    def __init__(self, stages: Stages) -> None:
        """`stages`: at the start of the service no training is the cause."""
        self._tracer, self._stages = active(), stages
        self.cause: Callable[[str], Trace | None] = lambda version: None

    def record(self, name: str, version: str, started_s: float, error: Exception | None = None) -> None:
        """A version is live under `name`, or could not be loaded because of `error`; begun at monotonic `started_s`."""
        if self._tracer is None:
            return
        cause = self.cause(version) if self._stages.is_done(MODELS) else None
        trace = self._tracer.rare() if cause is None else cause.child()
        if trace is None:
            return
        attributes = {"nearfield.model.name": name, "nearfield.model.version": version_names.shown(version)}
        kind = None if error is None else error_of(error)
        self._tracer.record("swap", trace, time.monotonic() - started_s, attributes, error=kind)
