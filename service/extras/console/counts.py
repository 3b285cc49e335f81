"""`Counts`: the numbers behind the curves of the overview, from the metrics of all processes of the service."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable

from msgspec import Struct

LISTS = ("/recommend", "/neighbors")  # POST of these reads, too
READS = (*LISTS, "/popular", "/latest", "/items", "/users", "/ratings", "/estimate")
SERIES = (
    "nearfield_request_seconds_bucket",
    "nearfield_freshness_seconds_bucket",
    "nearfield_ratings_learned_total",
    "nearfield_device_bytes",
    "process_resident_memory_bytes",
)
# No value of their labels has a quote: methods, routes, statuses, bounds, and names of uses of memory.
_SAMPLE = re.compile(rf"^({'|'.join(SERIES)})(?:\{{(.*)\}})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
Samples = list[tuple[dict[str, str], float]]  # (labels, value)
Buckets = list[tuple[float | None, float]]  # (upper bound in seconds, None for the last; number up to it), ascending


class Counts(Struct):
    """Sums since the start, and present sizes. A page makes rates and quantiles of the difference of two.

    Attributes:
        at_s: Unix seconds at which they were read.
        reads: times to answer reads.
        freshness: times until ratings were visible.
        learned: ratings and events that were learned.
        host_bytes: memory of all processes of the service.
        device_bytes: memory of the GPU, see `gpu.backend.Backend.device_bytes`.
    """

    at_s: float
    reads: Buckets
    freshness: Buckets
    learned: float
    host_bytes: float
    device_bytes: dict[str, float]


def counts_of(text: str) -> Counts:
    """The counts in a page of metrics; takes a millisecond, the parser of the metrics library five."""
    found: dict[str, Samples] = {name: [] for name in SERIES}
    for name, labels, value in _SAMPLE.findall(text):
        found[name].append((dict(_LABEL.findall(labels)), float(value)))
    reads, freshness, learned, device, host = found.values()
    return Counts(
        round(time.time(), 3),
        _buckets((labels, value) for labels, value in reads if _is_read(labels["method"], labels["route"])),
        _buckets(freshness),
        sum(value for _, value in learned),
        sum(value for _, value in host),
        {labels["of"]: value for labels, value in device},
    )


def _is_read(method: str, route: str) -> bool:
    return (method == "GET" and route.startswith(READS)) or (method == "POST" and route.startswith(LISTS))


def _buckets(samples: Iterable[tuple[dict[str, str], float]]) -> Buckets:
    """The sum of several histograms with the same bounds."""
    sums: dict[float, float] = {}
    for labels, value in samples:
        bound = float(labels["le"])
        sums[bound] = sums.get(bound, 0.0) + value
    return [(bound if math.isfinite(bound) else None, sums[bound]) for bound in sorted(sums)]
