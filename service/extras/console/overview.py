"""`/console/overview`: sizes of the service, and curves that the page draws from `Counts`."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Iterable

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheService
from service.api.operations import GetMetrics, GetStats
from service.api.parsers.bodies import JSON
from service.engine.statistics import Stats
from service.extras.console.pages import page, part
from service.extras.console.visit import console_router

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

router = console_router()


class Counts(Struct):
    """Sums since the start, and present sizes. A page makes rates and quantiles of the difference of two.

    Attributes:
        at_s: Unix seconds at which they were read.
        reads: times to answer reads.
        freshness: times until ratings were visible.
        learned: ratings and events that were learned.
        host_bytes: memory of all processes of the service.
        device_bytes: memory of the GPU, see `gpu.base.backend.Backend.device_bytes`.
    """

    at_s: float
    reads: Buckets
    freshness: Buckets
    learned: float
    host_bytes: float
    device_bytes: dict[str, float]


@router.get("/overview")
async def get_overview(request: Request, serving: TheService) -> Response:
    """The page; its script then asks for counts every few seconds."""
    return page(request, "overview.html", stats=await part(serving.operate(GetStats()), Stats))


@router.get("/sizes")
async def get_sizes(request: Request, serving: TheService) -> Response:
    """The table of sizes alone."""
    return page(request, "sizes.html", stats=await part(serving.operate(GetStats()), Stats))


@router.get("/counts")
async def get_counts(serving: TheService) -> Response:
    """The present counts as JSON."""
    text = (await serving.operate(GetMetrics())).decode()
    return Response(msgspec.json.encode(await asyncio.to_thread(counts_of, text)), media_type=JSON.decode())


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
