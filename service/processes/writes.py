"""`Writes`: appends entries to the stream as long as they may be acknowledged, and counts refusals."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from service.base.errors import Overloaded, ServiceError
from service.engine import fairness
from service.storage.events import Fields, StreamId
from service.telemetry import traces
from service.telemetry.metrics import Metrics
from service.telemetry.trace_context import Trace


class Appending(Protocol):
    """What `Writes` needs of a stream."""

    @property
    def n_appending(self) -> int:
        """Appends that wait."""
        ...

    async def append(self, fields: Fields) -> StreamId:
        """Append one durable entry."""
        ...


class Writes:
    """The writes of one process.

    Args:
        stream: takes the entries.
        refusal: the error with which a write must be refused now, or None.
        max_waiting: most appends that may wait for Redis.
        metrics: counts refusals by reason.
        on_traced: told the position and the span of each recorded request that has written.
        check: raises the error with which an entry must be refused.
    """

    def __init__(
        self,
        stream: Appending,
        refusal: Callable[[], ServiceError | None],
        max_waiting: int,
        metrics: Metrics,
        on_traced: Callable[[StreamId, Trace], None],
        check: Callable[[Fields], None] = lambda fields: None,
    ) -> None:
        self._tracer, self._on_traced, self._check_entry = traces.active(), on_traced, check
        self._stream, self._refusal, self._max_waiting, self._metrics = stream, refusal, max_waiting, metrics
        metrics.queue_length.labels("appends").set_function(lambda: stream.n_appending)

    async def append(self, fields: Fields) -> StreamId:
        """See `service.api.serving.Serving.append`."""
        try:
            self._check()
            self._check_entry(fields)
            if self._tracer is None or (trace := fairness.current.get().trace) is None:
                return await self._stream.append(fields)
            return await self._traced(fields, self._tracer, trace)
        except ServiceError as error:
            self._metrics.writes_refused.labels(error.slug).inc()
            raise

    async def _traced(self, fields: Fields, tracer: traces.Tracer, trace: Trace) -> StreamId:
        began, error = time.monotonic(), None
        try:
            stream_id = await self._stream.append(fields)
        except BaseException as failure:
            error = traces.error_of(failure)
            raise
        finally:
            tracer.record("append", trace.child(), time.monotonic() - began, {}, error=error)
        self._on_traced(stream_id, trace)
        return stream_id

    def _check(self) -> None:
        refusal = self._refusal()
        if refusal is not None:
            raise refusal
        if self._stream.n_appending >= self._max_waiting:
            raise Overloaded(f"{self._max_waiting:,} writes are already waiting")
