"""Reads `/metrics` of the service: processor time, memory, learned ratings and batch sizes."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from loadtest.client import Client

CPU, LEARNED = "process_cpu_seconds_total", "nearfield_ratings_learned_total"
BATCHES, BATCHED = "nearfield_batch_size_count", "nearfield_batch_size_sum"
AGES = 'nearfield_freshness_seconds_bucket{le="'  # of batches of ratings, until all live models have them
LEVELS = {
    "resident_bytes": "process_resident_memory_bytes",
    "device_arrays_bytes": 'nearfield_device_bytes{of="arrays"}',
    "device_taken_bytes": 'nearfield_device_bytes{of="taken"}',
}


class Gauges(NamedTuple):
    """Values by name and labels of the series, and when they were read."""

    values: dict[str, float]
    read_s: float

    def until(self, later: Gauges) -> dict[str, float]:
        """Rates between this reading and `later`, and the levels of `later`; empty without such series."""
        if not later.values:
            return {}
        seconds = later.read_s - self.read_s
        grown = {name: later.values.get(name, 0.0) - self.values.get(name, 0.0) for name in (CPU, LEARNED)}
        batches, batched = (later.values.get(name, 0.0) - self.values.get(name, 0.0) for name in (BATCHES, BATCHED))
        return (
            {
                "cores": round(grown[CPU] / seconds, 3),
                "learned_per_s": round(grown[LEARNED] / seconds, 1),
                "reads_a_batch": round(batched / max(batches, 1.0), 2),
            }
            | self._ages_until(later)
            | {name: later.values[series] for name, series in LEVELS.items() if series in later.values}
        )

    def _ages_until(self, later: Gauges) -> dict[str, float]:
        """Bounds in milliseconds within which 50 % and 99 % of the batches up to `later` were learned.

        A bound is missing if there were no batches or they took longer than the last bound: JSON has no infinity.
        """
        counts = {
            1000 * float(name[len(AGES) : -2]): count - self.values.get(name, 0.0)
            for name, count in later.values.items()
            if name.startswith(AGES)
        }
        n_batches = counts.pop(math.inf, 0.0)
        limits = {}
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            bounds = [bound for bound, count in counts.items() if count >= share * n_batches]
            if n_batches and bounds:
                limits[f"learned_{name}_below_ms"] = min(bounds)
        return limits


async def read(client: Client) -> Gauges:
    """Read all present values of `/metrics`."""
    answer = await client.get("/metrics")
    lines = [line for line in answer.body.decode().splitlines() if line.startswith(("nearfield_", "process_"))]
    pairs = [line.rpartition(" ") for line in lines]
    return Gauges({name: float(value) for name, _, value in pairs}, time.perf_counter())
