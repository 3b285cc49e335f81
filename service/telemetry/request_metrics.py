"""`RequestMetrics`: the series of requests, by method, route and status."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from service.telemetry.histogram import SingleWriterHistogram

REQUEST_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
STATUS = tuple(map(str, range(600)))
METHODS = {method: method for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")}
OTHER_METHOD = "other"  # one series for all invented methods


class RequestMetrics(Collector):
    """Requests answered and their times, by method, route and status. Belongs to the event loop."""

    LABELS = "method", "route", "status"

    def __init__(self) -> None:
        self._times = SingleWriterHistogram(
            "nearfield_request_seconds", "Time to answer.", self.LABELS, buckets=REQUEST_SECONDS
        )

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._times.observe((METHODS.get(method, OTHER_METHOD), route, STATUS[status]), seconds)

    def show(self, method: str, route: str, status: int, seconds: float, trace_id: str) -> None:
        """Make a counted request an example, with the id of its trace."""
        self._times.show((METHODS.get(method, OTHER_METHOD), route, STATUS[status]), seconds, trace_id)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        total = CounterMetricFamily("nearfield_requests", "Requests answered.", labels=self.LABELS)
        for labels, count in self._times.totals().items():
            total.add_metric(labels, count)
        yield total
        yield from self._times.collect()
