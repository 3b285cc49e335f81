"""Sends a schedule of requests on time and records the answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loadtest.client import Answer, Client
from loadtest.workload import Arrival, Plan, Population, arrivals

PERCENTILES = (50, 90, 99, 99.9)
MS = 1000
REFUSALS = 429, 503


@dataclass
class Record:
    """The answers to one kind of request: statuses, and latencies from the scheduled time.

    Attributes:
        latencies_s: of good answers.
        refused_s: of refusals because of overload.
    """

    latencies_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    def add(self, status: int, latency_s: float) -> None:
        """Count one answer."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if 200 <= status < 300:
            self.latencies_s.append(latency_s)
        elif status in REFUSALS:
            self.refused_s.append(latency_s)

    def join(self, other: Record) -> None:
        """Add the counts of another record."""
        self.latencies_s += other.latencies_s
        self.refused_s += other.refused_s
        for status, n in other.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + n

    def summary(self, seconds: float) -> dict[str, Any]:
        """Counts, rate of good answers, percentiles of their latencies in milliseconds, and of refusals if any came."""
        good = len(self.latencies_s)
        refused = {"refused_ms": percentiles_ms(self.refused_s)} if self.refused_s else {}
        return {
            "good": good,
            "good_per_s": round(good / seconds, 2),
            "statuses": {str(status): n for status, n in sorted(self.statuses.items())},
            "latency_ms": percentiles_ms(self.latencies_s),
            **refused,
        }


@dataclass
class Driven:
    """The result of a schedule.

    Attributes:
        records: answers by kind of request.
        late_s: delay of each request after its scheduled time: the driver's own share of the latency.
        seconds: time until the last answer.
    """

    records: dict[str, Record] = field(default_factory=dict)
    late_s: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def joined(cls, parts: Iterable[Driven]) -> Driven:
        """The joint result of drivers that ran at the same time."""
        whole = cls()
        for part in parts:
            for kind, record in part.records.items():
                whole.records.setdefault(kind, Record()).join(record)
            whole.late_s += part.late_s
            whole.seconds = max(whole.seconds, part.seconds)
        return whole

    def summary(self) -> dict[str, Any]:
        """The result as a JSON document."""
        kinds = {kind: record.summary(self.seconds) for kind, record in sorted(self.records.items())}
        return {"seconds": round(self.seconds, 2), "sent_late_ms": percentiles_ms(self.late_s), "kinds": kinds}


async def send(client: Client, population: Population, plan: Plan) -> Driven:
    """Send the requests of `plan`, over connections that are opened before the first request is due."""
    await client.open(plan.n_connections)
    return await drive(client, arrivals(population, *plan))


async def drive(client: Client, schedule: Iterable[Arrival]) -> Driven:
    """Send every arrival when it is due, without waiting for earlier answers."""
    driven = Driven()
    waiting: set[asyncio.Future[Answer]] = set()
    start = time.perf_counter()
    for arrival in schedule:
        due = start + arrival.due_s
        await _sleep_until(due)
        driven.late_s.append(time.perf_counter() - due)
        answer = client.get(arrival.path) if arrival.body is None else client.post(arrival.path, arrival.body)
        waiting.add(answer)
        answer.add_done_callback(waiting.discard)
        answer.add_done_callback(_recorder(driven.records.setdefault(arrival.kind, Record()), due))
    await asyncio.gather(*waiting)
    driven.seconds = time.perf_counter() - start
    return driven


def percentiles_ms(latencies_s: list[float]) -> dict[str, float]:
    """{"p50": …, "p99": …, "max": …} in milliseconds; empty if there were no answers."""
    if not latencies_s:
        return {}
    values = np.array(latencies_s) * MS
    return {f"p{p:g}": round(float(np.percentile(values, p)), 3) for p in PERCENTILES} | {"max": round(values.max(), 3)}


async def _sleep_until(moment: float) -> None:
    if (delay_s := moment - time.perf_counter()) > 0:
        await asyncio.sleep(delay_s)


def _recorder(record: Record, due: float) -> Any:
    def done(answer: asyncio.Future[Answer]) -> None:
        record.add(answer.result().status, time.perf_counter() - due)

    return done
