"""`Writes`: decides whether a request may write now, counts refusals, and has the stream's writer append the entry."""

from __future__ import annotations

import time
from collections.abc import Callable

from service.base.errors import Overloaded, ServiceError
from service.engine import fairness
from service.storage.events import ZERO, Fields, StreamId, parse_entry
from service.storage.streams.stream_writer import StreamWriter
from service.telemetry import traces
from service.telemetry.metrics import Metrics
from service.telemetry.trace_context import Trace


class Writes:
    """The writes of one process.

    Args:
        writer: appends the entries.
        refusal: the error with which a write must be refused now, or None.
        max_waiting: most appends that may wait for Redis.
        metrics: counts refusals by reason.
        on_traced: told the position and the span of each recorded request that has written.
        check: raises the error with which an entry must be refused.
        quota: the error with which an entry must be refused that adds something, or None.
    """

    def __init__(
        self,
        writer: StreamWriter,
        refusal: Callable[[], ServiceError | None],
        max_waiting: int,
        metrics: Metrics,
        on_traced: Callable[[StreamId, Trace], None],
        check: Callable[[Fields], None] = lambda fields: None,
        quota: Callable[[], ServiceError | None] = lambda: None,
    ) -> None:
        self._tracer, self._on_traced, self._check, self._quota = traces.active(), on_traced, check, quota
        self._writer, self._refusal, self._max_waiting, self._metrics = writer, refusal, max_waiting, metrics
        metrics.queue_length.labels("appends").set_function(lambda: writer.n_waiting)

    async def append(self, fields: Fields) -> StreamId:
        """Append one entry to the stream; it is durable on return. Raises what `service.api.serving` says."""
        try:
            if (refusal := self._refusal()) is not None:
                raise refusal
            if (excess := self._quota()) is not None and parse_entry(ZERO, fields).adds:
                raise excess
            if self._writer.n_waiting >= self._max_waiting:
                raise Overloaded(f"{self._max_waiting:,} writes are already waiting")
            self._check(fields)
            if self._tracer is None or (trace := fairness.current.get().trace) is None:
                return await self._writer.append(fields)
            began, error = time.monotonic(), None
            try:
                stream_id = await self._writer.append(fields)
            except BaseException as failure:
                error = traces.error_of(failure)
                raise
            finally:
                self._tracer.record("append", trace.child(), time.monotonic() - began, {}, error=error)
            self._on_traced(stream_id, trace)
            return stream_id
        except ServiceError as error:
            self._metrics.writes_refused.labels(error.slug).inc()
            raise
