"""Sends a schedule of requests on time and records what came back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from loadtest.client import Client
from loadtest.workload import Arrival

PERCENTILES = (50, 90, 99, 99.9)
MS = 1000


@dataclass
class Record:
    """What one kind of request met: latencies from the intended moment, and statuses."""

    latencies_s: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    def add(self, status: int, latency_s: float) -> None:
        """Count one answer; only a good one has a latency."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if 200 <= status < 300:
            self.latencies_s.append(latency_s)

    def summary(self, seconds: float) -> dict[str, object]:
        """Counts, rate of good answers and latency percentiles in milliseconds."""
        good = len(self.latencies_s)
        return {
            "good": good,
            "good_per_s": good / seconds,
            "statuses": {str(status): n for status, n in sorted(self.statuses.items())},
            "latency_ms": percentiles_ms(self.latencies_s),
        }


async def drive(client: Client, schedule: Iterable[Arrival]) -> tuple[dict[str, Record], float]:
    """Send every arrival when it is due; returns a record per kind and the seconds until the last answer."""
    records: dict[str, Record] = {}
    waiting: set[asyncio.Task[None]] = set()
    start = time.perf_counter()
    for arrival in schedule:
        await _sleep_until(start + arrival.due_s)
        record = records.setdefault(arrival.kind, Record())
        task = asyncio.create_task(_one(client, arrival, start + arrival.due_s, record))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    await asyncio.gather(*waiting)
    return records, time.perf_counter() - start


def percentiles_ms(latencies_s: list[float]) -> dict[str, float]:
    """{"p50": …, "p99": …, "max": …} in milliseconds; empty where nothing was answered."""
    if not latencies_s:
        return {}
    values = np.array(latencies_s) * MS
    return {f"p{p:g}": round(float(np.percentile(values, p)), 3) for p in PERCENTILES} | {"max": round(values.max(), 3)}


async def _sleep_until(moment: float) -> None:
    if (delay_s := moment - time.perf_counter()) > 0:
        await asyncio.sleep(delay_s)


async def _one(client: Client, arrival: Arrival, due: float, record: Record) -> None:
    if arrival.body is None:
        answer = await client.get(arrival.path)
    else:
        answer = await client.post(arrival.path, arrival.body)
    record.add(answer.status, time.perf_counter() - due)
