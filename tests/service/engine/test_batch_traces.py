"""Spans of batches: which request they belong to, whenever the engine hears of it."""

import time
from collections.abc import Callable

import pytest

from service.engine.batch_traces import BatchTraces
from service.engine.pending_events import EventBatch
from service.engine.state.rating_runs import runs_of
from service.storage.events import Entry, RatingEvent, StreamId
from service.telemetry import traces
from service.telemetry.metrics import Metrics
from service.telemetry.span import Span
from service.telemetry.trace_context import Sampling, Trace
from service.telemetry.traces import Tracer


class Kept:
    """Keeps spans instead of sending them."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.add = self.spans.append
        self.on_dropped: Callable[[str, int], None] = lambda reason, n_spans: None

    def stop(self, timeout_s: float) -> None:
        """Nothing waits."""


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()
    monkeypatch.setattr(traces._Present, "tracer", Tracer(Sampling(1.0, follows=True), kept))
    return kept


def batch(*ms: int) -> EventBatch:
    entries = [Entry(StreamId(one, 0), "rating", [RatingEvent("u", "i", 4.0, 0.0)]) for one in ms]
    return EventBatch(runs_of(entries), time.monotonic())


def test_a_batch_is_part_of_the_first_write_and_has_links_to_the_others(kept: Kept) -> None:
    batches = BatchTraces(Metrics())
    for ms in (1, 2, 9):
        batches.note(StreamId(ms, 0), Trace(100 + ms, 7))
    batches.learned([batch(1, 2), batch(3)])
    (span,) = kept.spans
    assert (span.trace.trace_id, span.trace.parent_id, span.attributes) == (101, 7, {"nearfield.batch.ratings": 3})
    assert span.links == [Trace(102, 7)]
    batches.learned([batch(9)])
    assert [one.trace.trace_id for one in kept.spans] == [101, 109]


def test_a_write_that_was_learned_before_it_was_noted_has_its_batch(kept: Kept) -> None:
    batches = BatchTraces(Metrics())
    batches.learned([batch(5, 6)])
    batches.learned([batch(7)])
    batches.note(StreamId(6, 0), Trace(1, 2))
    assert [(one.trace.trace_id, one.attributes["nearfield.batch.ratings"]) for one in kept.spans] == [(1, 2)]
    batches.note(StreamId(4, 0), Trace(3, 4))  # from before all that is remembered
    assert len(kept.spans) == 1
