"""`Counts`: what the overview draws its curves from, out of a page of metrics."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable

from msgspec import Struct

CURVES, CURVES_LOCK = "curves.jsonl", ".curves.lock"  # files in DATA with counts: see `points`
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
        device_bytes: memory of the GPU, see `gpu.base.backend.Backend.device_bytes`.
        alerts: names of those whose conditions hold; only in points of the file.
    """

    at_s: float
    reads: Buckets
    freshness: Buckets
    learned: float
    host_bytes: float
    device_bytes: dict[str, float]
    alerts: list[str] = []


def counts_of(text: str) -> Counts:
    """The counts in a page of metrics; takes a millisecond, the parser of the metrics library five."""
    samples: dict[str, Samples] = {name: [] for name in SERIES}
    for name, labels, value in _SAMPLE.findall(text):
        samples[name].append((dict(_LABEL.findall(labels)), float(value)))
    requests, freshness, learned, device, host = samples.values()
    routes = {"GET": READS, "POST": LISTS}
    reads = [sample for sample in requests if sample[0]["route"].startswith(routes.get(sample[0]["method"], ()))]
    return Counts(
        round(time.time(), 3),
        buckets_of(reads),
        buckets_of(freshness),
        sum(value for _, value in learned),
        sum(value for _, value in host),
        {labels["of"]: value for labels, value in device},
    )


def buckets_of(samples: Iterable[tuple[dict[str, str], float]]) -> Buckets:
    """The sum of several histograms with the same bounds."""
    sums: dict[float, float] = {}
    for labels, value in samples:
        bound = float(labels["le"])
        sums[bound] = sums.get(bound, 0.0) + value
    return [(bound if math.isfinite(bound) else None, sums[bound]) for bound in sorted(sums)]
