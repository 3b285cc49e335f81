"""`BatchTraces`: the spans of the engine's batches, each of which serves many requests.

A batch is a part of the first recorded request that it serves, and has links to the others: it cannot be a part of
several, and alone it would be in no trace of a request. A write is learned after its answer, and maybe before this
process hears that it is recorded. So the last batches are remembered, and so are writes of a later batch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from service.engine.pending_events import EventBatch
from service.engine.pending_queries import PendingQuery
from service.storage.events import StreamId
from service.telemetry.metrics import Metrics
from service.telemetry.span import Span
from service.telemetry.trace_context import Trace
from service.telemetry.traces import Tracer, active

N_REMEMBERED = 64  # batches that were learned
MAX_WAITING = 1024  # recorded writes that are not learned yet; beyond it the oldest get no span


class _Learned(NamedTuple):
    """A batch that every live model has."""

    first: StreamId
    last: StreamId
    n_ratings: int
    began_ns: int
    ended_ns: int


class BatchTraces:
    """Records batches of reads and of ratings. Any thread may call `note`, the engine's thread the rest.

    Without a tracer in this process it does nothing.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._tracer, self._freshness = active(), metrics.freshness_seconds
        self._lock = threading.Lock()
        self._waiting: dict[StreamId, Trace] = {}  # in the order of `note`
        self._batches: deque[_Learned] = deque(maxlen=N_REMEMBERED)

    def ranked(self, pending_queries: Sequence[PendingQuery], began_s: float) -> None:
        """A batch of queries was answered since `began_s`, monotonic seconds."""
        if self._tracer is None:
            return
        served = [trace for pending in pending_queries if (trace := pending.client.trace) is not None]
        if not served:
            return
        seconds = time.monotonic() - began_s
        waited_s = began_s - min(pending.since for pending in pending_queries if pending.client.trace is not None)
        attributes = {"nearfield.batch.queries": len(pending_queries), "nearfield.queue.seconds": waited_s}
        self._tracer.record("rank", served[0].child(), seconds, attributes, links=served[1:])

    def learned(self, event_batches: Sequence[EventBatch]) -> None:
        """Every live model has these entries now."""
        if self._tracer is None:
            return
        ended_ns = time.time_ns()
        began_ns = ended_ns - int((time.monotonic() - event_batches[0].since) * 1e9)
        first, last = event_batches[0].runs[0].entries[0].id, event_batches[-1].last
        batch = _Learned(first, last, sum(one.n_ratings for one in event_batches), began_ns, ended_ns)
        with self._lock:
            self._batches.append(batch)
            served = {position: trace for position, trace in self._waiting.items() if position <= last}
            for position in served:
                del self._waiting[position]
        if served:
            self._record(self._tracer, batch, served)

    def note(self, position: StreamId, trace: Trace) -> None:
        """A recorded request has written the entry at `position`, which may be learned already."""
        with self._lock:
            batch = next((one for one in self._batches if position <= one.last), None)
            if batch is None:
                if len(self._waiting) >= MAX_WAITING:
                    del self._waiting[next(iter(self._waiting))]
                self._waiting[position] = trace
        # One from before all that is remembered gets no span.
        if self._tracer is not None and batch is not None and batch.first <= position:
            self._record(self._tracer, batch, {position: trace})

    def _record(self, tracer: Tracer, batch: _Learned, served: dict[StreamId, Trace]) -> None:
        first, *others = served.values()
        attributes = {"nearfield.batch.ratings": batch.n_ratings}
        tracer.add(Span("learn", first.child(), batch.began_ns, batch.ended_ns, attributes, others))
        for position, trace in served.items():
            self._freshness.show((), max(0.0, batch.ended_ns / 1e9 - position.ms / 1000), trace.hex_id)
