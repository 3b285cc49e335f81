"""The Prometheus series of the service. Names start with `nearfield_` and contain the unit.

Series of the process have the usual names of all programs, such as `process_resident_memory_bytes`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

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


class Metrics:
    """One registry and its series. Each application has its own, so that two in one process do not mix."""

    def __init__(self, *, of_process: bool = True) -> None:  # noqa: PLR0915 (a list of series)
        """`of_process`: with the series of the process, such as its memory."""
        registry = self.registry = CollectorRegistry()
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would add a series per counter, its time of creation
        if of_process:
            ProcessCollector(registry=registry)
        self.requests = RequestMetrics()
        registry.register(self.requests)

        # --- what clients write, and how soon it counts

        self.ratings_accepted = Counter(
            "nearfield_ratings_accepted", "Ratings and deletions acknowledged with 202.", registry=registry
        )
        self.ratings_rejected = Counter(
            "nearfield_ratings_rejected", "Ratings refused in an otherwise accepted request.", registry=registry
        )
        self.writes_refused = Counter(
            "nearfield_writes_refused",
            "Writes answered 503 or 500, by the last part of the problem's type.",
            ("reason",),
            registry=registry,
        )
        self.events_accepted = Counter(
            "nearfield_events_accepted", "Events acknowledged with 202, repeated ones too.", registry=registry
        )
        self.events_rejected = Counter(
            "nearfield_events_rejected", "Events refused in an otherwise accepted request.", registry=registry
        )
        self.items_accepted = Counter(
            "nearfield_items_accepted", "Items put, patched and deleted, acknowledged with 202.", registry=registry
        )
        self.items_rejected = Counter(
            "nearfield_items_rejected", "Items refused in an otherwise accepted request.", registry=registry
        )
        self.attributed = Counter(
            "nearfield_attributed",
            "Events with a recommendation id, by what was shown; repeated ones too.",
            ("experiment", "arm", "type"),
            registry=registry,
        )
        self.ratings_learned = Counter(
            "nearfield_ratings_learned",
            "Ratings and events applied to the history and to every live model.",
            registry=registry,
        )
        self.freshness_seconds = SingleWriterHistogram(
            "nearfield_freshness_seconds",
            "From the acceptance of a request to its visibility in every live model.",
            (),
            FRESHNESS_SECONDS,
        )
        registry.register(self.freshness_seconds)
        self.learn_seconds = Histogram(
            "nearfield_learn_seconds",
            "From the arrival of a batch in the queue until every live model has learned it.",
            buckets=FRESHNESS_SECONDS,
            registry=registry,
        )

        # --- sources

        self._skipping: set[str] = set()
        self._skipped_batches = Counter(
            "nearfield_skipped_batches",
            "Batches acknowledged with 202 that do not count, because their X-Source had come further before.",
            ("source",),
            registry=registry,
        )
        self._skipped_elements = Counter(
            "nearfield_skipped_elements",
            "Ratings and events of batches that do not count, by their X-Source.",
            ("source",),
            registry=registry,
        )

        # --- queues

        self.queue_length = Gauge(
            "nearfield_queue_length",
            "Entries in the queues of the engine thread, and appends that wait for Redis.",
            ("queue",),
            registry=registry,
        )
        self.queue_seconds = SingleWriterHistogram(
            "nearfield_queue_seconds", "Time in a queue of the engine thread.", ("queue",), QUEUE_SECONDS
        )
        self.batch_size = SingleWriterHistogram(
            "nearfield_batch_size", "Requests answered in one batch.", (), BATCH_SIZES
        )
        registry.register(self.queue_seconds)
        registry.register(self.batch_size)

        # --- models

        self.swap_seconds = Histogram(
            "nearfield_swap_seconds",
            "From loading a snapshot to serving it.",
            ("algorithm",),
            buckets=LONG_SECONDS,
            registry=registry,
        )
        self.swaps = Counter(
            "nearfield_swaps", "Hot swaps by outcome (swapped, failed).", ("algorithm", "outcome"), registry=registry
        )
        self.model_age_seconds = Gauge(
            "nearfield_model_age_seconds",
            "Time since each live model was trained.",
            ("algorithm",),
            registry=registry,
        )
        self.model_info = Gauge(
            "nearfield_model_info", "1 for each live model.", ("algorithm", "version"), registry=registry
        )
        self.model_shadow = Gauge(
            "nearfield_model_shadow", "1 for each shadow, 0 for each model that answers.", ("model",), registry=registry
        )
        self.model_quality = Gauge(
            "nearfield_model_quality",
            "Test, then train: how well a model predicts what it learns next, and its baseline.",
            ("model", "measure"),
            registry=registry,
        )
        self.refits_waiting = Gauge(
            "nearfield_refits_waiting",
            "Items, and users who rated them, that a live model has yet to refit.",
            ("algorithm",),
            registry=registry,
        )

        # --- jobs

        self.jobs = Counter("nearfield_jobs_finished", "Training jobs by final state.", ("state",), registry=registry)
        self.webhook_attempts = Counter(
            "nearfield_webhook_attempts",
            "Attempts to tell a webhook that a job has ended, by outcome (delivered, failed, given-up).",
            ("outcome",),
            registry=registry,
        )
        self.training_ranks = Gauge(
            "nearfield_training_ranks",
            "Processes that train a model now; 0: none.",
            registry=registry,
        )
        self.training_restarts = Counter(
            "nearfield_training_restarts",
            "Attempts of trainings that lost a rank and began again from a checkpoint.",
            registry=registry,
        )
        self.training_bytes_moved = Counter(
            "nearfield_training_bytes_moved",
            "Bytes that processes of trainings sent each other, by kind of exchange.",
            ("kind",),
            registry=registry,
        )
        self.training_wait_seconds = Counter(
            "nearfield_training_wait_seconds",
            "Time of processes of trainings in exchanges, including the time to wait for each other.",
            registry=registry,
        )

        # --- sizes and state

        self.users = Gauge("nearfield_users", "Users who have rated and are not forgotten.", registry=registry)
        self.users_forgotten = Gauge(
            "nearfield_users_forgotten",
            "Users forgotten, as far as the log shows.",
            registry=registry,
        )
        self.items = Gauge("nearfield_items", "Items that were ever rated, hidden or put.", registry=registry)
        self.items_hidden = Gauge("nearfield_items_hidden", "Items that are hidden.", registry=registry)
        self.items_available = Gauge(
            "nearfield_items_available",
            "Items that are neither hidden nor deleted, and available now.",
            registry=registry,
        )
        self.ratings = Gauge(
            "nearfield_ratings", "Present ratings: the last one of each user and item.", registry=registry
        )
        self.archiver_lag_seconds = Gauge(
            "nearfield_archiver_lag_seconds",
            "Age of the oldest entry that the log lacks, or time since the archiver stalled.",
            registry=registry,
        )
        self.rating_log_damaged = Gauge(
            "nearfield_rating_log_damaged",
            "1 while a segment of the rating log is known to be missing or altered; merging and trimming stop.",
            registry=registry,
        )
        self.archiver_pending_ratings = Gauge(
            "nearfield_archiver_pending_ratings",
            "Ratings that were read from the stream and are not in the log yet.",
            registry=registry,
        )
        self.store_age_seconds = Gauge(
            "nearfield_store_age_seconds",
            "Time since DATA was last equal to a store; 0: none.",
            registry=registry,
        )
        self.connections = Gauge("nearfield_connections", "Open connections.", registry=registry)
        self.device_bytes = Gauge("nearfield_device_bytes", "Memory of the GPU by use.", ("of",), registry=registry)
        self.spans_dropped = Counter(
            "nearfield_spans_dropped",
            "Spans of traces that got lost, by reason (queue-full, not-delivered).",
            ("reason",),
            registry=registry,
        )
        self.ready = Gauge("nearfield_ready", "1 while /health/ready answers 200.", registry=registry)

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
        self._skipped_batches.labels(label).inc()
        self._skipped_elements.labels(label).inc(n_elements)


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
