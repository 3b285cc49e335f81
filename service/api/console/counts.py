"""`Counts`: what the curves of the overview are drawn from, taken from the metrics of all processes of the service."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from msgspec import Struct
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

LISTS = ("/recommend", "/neighbors")  # POST of these reads, too
READS = (*LISTS, "/popular", "/latest", "/items", "/users", "/ratings", "/estimate")
SERIES = (
    "nearfield_request_seconds_bucket",
    "nearfield_freshness_seconds_bucket",
    "nearfield_ratings_learned_total",
    "nearfield_device_bytes",
    "process_resident_memory_bytes",
)
Buckets = list[tuple[float | None, float]]  # (upper bound in seconds, None for the last; number up to it), ascending


class Counts(Struct):
    """Sums since the start, and present sizes. A page makes rates and quantiles of the difference of two.

    Attributes:
        at_s: Unix seconds at which they were read.
        reads: times to answer reads.
        freshness: times until ratings were visible.
        learned: ratings and events that were learned.
        host_bytes: memory of all processes of the service.
        device_bytes: memory of the GPU by use; empty without one.
    """

    at_s: float
    reads: Buckets
    freshness: Buckets
    learned: float
    host_bytes: float
    device_bytes: dict[str, float]


def counts_of(text: str) -> Counts:
    """The counts in a page of metrics; takes some milliseconds."""
    lines = [line for line in text.split("\n") if line.startswith(SERIES)]
    found: dict[str, list[Metric]] = {}
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        found.setdefault(family.samples[0].name, []).append(family)
    reads, freshness, learned, device, host = (_samples(found.get(name, ())) for name in SERIES)
    return Counts(
        round(time.time(), 3),
        _buckets((labels, value) for labels, value in reads if _is_read(labels["method"], labels["route"])),
        _buckets(freshness),
        sum(value for _, value in learned),
        sum(value for _, value in host),
        {labels["of"]: value for labels, value in device},
    )


def _samples(families: Iterable[Metric]) -> list[tuple[dict[str, str], float]]:
    return [(sample.labels, sample.value) for family in families for sample in family.samples]


def _is_read(method: str, route: str) -> bool:
    return (method == "GET" and route.startswith(READS)) or (method == "POST" and route.startswith(LISTS))


def _buckets(samples: Iterable[tuple[dict[str, str], float]]) -> Buckets:
    """The sum of several histograms with the same bounds."""
    sums: dict[float, float] = {}
    for labels, value in samples:
        bound = float(labels["le"])
        sums[bound] = sums.get(bound, 0.0) + value
    return [(bound if math.isfinite(bound) else None, sums[bound]) for bound in sorted(sums)]
