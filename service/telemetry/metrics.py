"""The Prometheus series of the service. Names start with `nearfield_` and contain the unit.

Series of the process have the usual names of all programs, such as `process_resident_memory_bytes`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, get_type_hints

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.openmetrics import exposition as openmetrics

from service.telemetry import traces
from service.telemetry.histogram import SingleWriterHistogram
from service.telemetry.metrics_sum import MetricsSum
from service.telemetry.request_metrics import RequestMetrics

FRESHNESS_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
QUEUE_SECONDS = (0.0001, 0.0002, 0.0005, *FRESHNESS_SECONDS[:-1])
BATCH_SIZES = tuple(2**n for n in range(11))
PLAIN_TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_TEXT = openmetrics.CONTENT_TYPE_LATEST
MAX_SKIPPING, OTHER_SOURCES = 100, "other"  # sources that have a series of their own, and the series of the others
CACHED_S = 1.0  # seconds of a page; Prometheus asks every 15 s by default
LONG_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800)


class _Series(NamedTuple):
    text: str
    labels: tuple[str, ...]
    options: dict[str, Any]


def _series(text: str, *labels: str, **options: Any) -> Any:
    """A series of `Metrics`: its annotation gives the kind, its attribute the name. `options` are those of the kind."""
    return _Series(text, labels, options)


class Metrics:
    """One registry and its series. Each application has its own, so that two in one process do not mix."""

    # --- what clients write, and how soon it counts

    ratings_accepted: Counter = _series("Ratings and deletions acknowledged with 202.")
    ratings_rejected: Counter = _series("Ratings refused in an otherwise accepted request.")
    writes_refused: Counter = _series("Writes answered 500 or above, by the last part of the problem's type.", "reason")
    events_accepted: Counter = _series("Events acknowledged with 202, repeated ones too.")
    events_rejected: Counter = _series("Events refused in an otherwise accepted request.")
    items_accepted: Counter = _series("Items put, patched and deleted, acknowledged with 202.")
    items_rejected: Counter = _series("Items refused in an otherwise accepted request.")
    attributed: Counter = _series(
        "Events with a recommendation id, by what was shown; repeated ones too.", "experiment", "arm", "type"
    )
    ratings_learned: Counter = _series("Ratings and events applied to the history and to every live model.")
    freshness_seconds: SingleWriterHistogram = _series(
        "From the acceptance of a request to its visibility in every live model.", buckets=FRESHNESS_SECONDS
    )
    learn_seconds: Histogram = _series(
        "From the arrival of a batch in the queue until every live model has learned it.", buckets=FRESHNESS_SECONDS
    )

    # --- sources

    skipped_batches: Counter = _series(
        "Batches acknowledged with 202 that do not count, because their X-Source had come further before.", "source"
    )
    skipped_elements: Counter = _series("Ratings and events of batches that do not count, by their X-Source.", "source")

    # --- queues

    queue_length: Gauge = _series(
        "Entries in the queues of the engine thread, and appends that wait for Redis.", "queue"
    )
    queue_seconds: SingleWriterHistogram = _series(
        "Time in a queue of the engine thread.", "queue", buckets=QUEUE_SECONDS
    )
    batch_size: SingleWriterHistogram = _series("Requests answered in one batch.", buckets=BATCH_SIZES)

    # --- models

    swap_seconds: Histogram = _series("From loading a snapshot to serving it.", "algorithm", buckets=LONG_SECONDS)
    swaps: Counter = _series("Hot swaps by outcome (swapped, failed).", "algorithm", "outcome")
    model_age_seconds: Gauge = _series("Time since each live model was trained.", "algorithm")
    model_info: Gauge = _series("1 for each live model.", "algorithm", "version")
    model_shadow: Gauge = _series("1 for each shadow, 0 for each model that answers.", "model")
    model_quality: Gauge = _series(
        "Test, then train: how well a model predicts what it learns next, and its baseline.", "model", "measure"
    )
    refits_waiting: Gauge = _series("Items, and users who rated them, that a live model has yet to refit.", "algorithm")

    # --- jobs

    jobs_finished: Counter = _series("Training jobs by final state.", "state")
    webhook_attempts: Counter = _series(
        "Attempts to tell a webhook that a job has ended, by outcome (delivered, failed, given-up).", "outcome"
    )
    training_ranks: Gauge = _series("Processes that train a model now; 0: none.")
    training_restarts: Counter = _series("Attempts of trainings that lost a rank and began again from a checkpoint.")
    training_bytes_moved: Counter = _series(
        "Bytes that processes of trainings sent each other, by kind of exchange.", "kind"
    )
    training_wait_seconds: Counter = _series(
        "Time of processes of trainings in exchanges, including the time to wait for each other."
    )

    # --- sizes and state

    users: Gauge = _series("Users who have rated and are not forgotten.")
    users_forgotten: Gauge = _series("Users forgotten, as far as the log shows.")
    items: Gauge = _series("Items that were ever rated, hidden or put.")
    items_hidden: Gauge = _series("Items that are hidden.")
    items_available: Gauge = _series("Items that are neither hidden nor deleted, and available now.")
    ratings: Gauge = _series("Present ratings: the last one of each user and item.")
    quota_used_ratio: Gauge = _series("Share of each quota that the data set holds or has used.", "quota")
    archiver_lag_seconds: Gauge = _series(
        "Age of the oldest entry that the log lacks, or time since the archiver stalled."
    )
    rating_log_damaged: Gauge = _series(
        "1 while a segment of the rating log is known to be missing or altered; merging and trimming stop."
    )
    archiver_pending_ratings: Gauge = _series("Ratings that were read from the stream and are not in the log yet.")
    store_age_seconds: Gauge = _series("Time since DATA was last equal to a store; 0: none.")
    connections: Gauge = _series("Open connections.")
    device_bytes: Gauge = _series("Memory of the GPU by use.", "of")
    spans_dropped: Counter = _series("Spans of traces that got lost, by reason (queue-full, not-delivered).", "reason")
    ready: Gauge = _series("1 while /health/ready answers 200.")

    def __init__(self, *, of_process: bool = True) -> None:
        """`of_process`: with the series of the process, such as its memory."""
        self.registry = CollectorRegistry()
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would add a series per counter, its time of creation
        if of_process:
            ProcessCollector(registry=self.registry)
        self.requests = RequestMetrics()
        self.registry.register(self.requests)
        for name, kind in get_type_hints(Metrics).items():
            series: _Series = getattr(Metrics, name)
            made = kind(f"nearfield_{name}", series.text, series.labels, registry=self.registry, **series.options)
            setattr(self, name, made)
        self._skipping: set[str] = set()

    def text(self, kind: str = PLAIN_TEXT, others: MetricsSum | None = None) -> bytes:
        """All series in the text format of Prometheus, or with `OPEN_TEXT` in that of OpenMetrics.

        Args:
            kind: the format.
            others: the series of further processes, to be added; None if there are none.
        """
        registry = self.registry if others is None else others.summed(self.registry)
        if kind == OPEN_TEXT:
            content: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
            return content
        return generate_latest(registry)

    def count_skipped(self, source: str, n_elements: int) -> None:
        """Count a skipped batch; clients choose the names of sources, so all but the first count as one."""
        if source not in self._skipping and len(self._skipping) < MAX_SKIPPING:
            self._skipping.add(source)
        label = source if source in self._skipping else OTHER_SOURCES
        self.skipped_batches.labels(label).inc()
        self.skipped_elements.labels(label).inc(n_elements)


def count_dropped_spans(metrics: Metrics) -> None:
    """Let these metrics count the spans that this process loses, if it records any."""
    tracer = traces.active()
    if tracer is not None:
        tracer.count_dropped(lambda reason, n_spans: metrics.spans_dropped.labels(reason).inc(n_spans))


def kind_for(accept: str | None) -> str:
    """The format that a header `Accept` asks for: `OPEN_TEXT` or `PLAIN_TEXT`."""
    kinds = {name.partition(";")[0].strip().lower() for name in (accept or "").split(",")}
    return OPEN_TEXT if OPEN_TEXT.partition(";")[0] in kinds else PLAIN_TEXT


class Scrape:
    """Renders the pages of `/metrics`, one per format, in a thread; all requests of a second share one page.

    Args:
        render: makes the page of a format; called in a thread, one call at a time for each format.
        before: awaited before each call of `render`, if there is something to await.
    """

    def __init__(self, render: Callable[[str], bytes], before: Callable[[], Awaitable[None]] | None = None) -> None:
        self._render, self._before = render, before
        self._rendering: dict[str, tuple[asyncio.Future[bytes], float]] = {}  # format -> (page, begun at)

    async def page(self, kind: str) -> bytes:
        """The page of format `kind`, at most a second old."""
        now = time.monotonic()
        page, at = self._rendering.get(kind, (None, 0.0))
        if page is None or (page.done() and now - at >= CACHED_S):

            async def rendered() -> bytes:
                if self._before is not None:
                    await self._before()
                return await asyncio.to_thread(self._render, kind)

            page = asyncio.ensure_future(rendered())
            self._rendering[kind] = page, now
        return await asyncio.shield(page)
