"""`python -m benchmarks export`: what an export of all ratings costs the requests beside it.

A private service gets a synthetic model and history. Reads and writes come in an open loop, as in `loadtest`: without
an export, while another process reads `GET /admin/export` in full, once in each format, and again without. The first
and the last phase differ by noise alone, so they tell how far the others may differ.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import psutil
import uvloop

from benchmarks.plant import SAMPLE, plant
from benchmarks.report import say
from benchmarks.running import REDIS, serving
from gpu.params import params_for
from loadtest.client import Client as Connections
from loadtest.driver import Driven, Record, drive, percentiles_ms
from loadtest.freshness import Probes
from loadtest.private import cores
from loadtest.workload import Plan, Population, arrivals
from service.cli.client import Client, RequestFailed

ALGORITHM, N_FACTORS = "als-implicit", 64
PER_USER, PER_ITEM = 50, 200  # ratings of a user and of an item, on average
N_PROCESSES = 2  # beside the service: the driver, and the reader of the export
LONGEST_S = 120.0  # seconds after which an export is given up
NICENESS = 10  # of the reader, so that it does not delay the driver
MB = 1e6


@dataclass(frozen=True)
class Row:
    """One phase. Times of requests in milliseconds; `sent_late_p99` is the driver's own share of them.

    Attributes:
        errors: requests without a good answer, and probes of freshness that were lost.
        export_s, rows_per_s, mb: of the export; None in a phase without one, or if it was given up.
        cpu_s: processor seconds of the process that made it.
    """

    export: str
    seconds: float
    per_s: float
    errors: int
    read_p50: float | None
    read_p99: float | None
    write_p50: float | None
    write_p99: float | None
    fresh_p99: float | None
    sent_late_p99: float | None
    export_s: float | None = None
    rows_per_s: int | None = None
    mb: float | None = None
    cpu_s: float | None = None


class Read(NamedTuple):
    """An export that was read in full."""

    seconds: float
    n_bytes: int


Reading = Future[Read | None]


def run(n_ratings: int, rate_per_s: float, seconds: float, formats: Sequence[str]) -> Iterator[Row]:
    """A row a phase: without, each of `formats`, and without.

    Args:
        n_ratings: ratings in the history.
        rate_per_s: requests per second, half of them reads.
        seconds: length of a phase without an export. Others last as long as the export, at most `LONGEST_S`.
        formats: as `GET /admin/export` names them.
    """
    own, others = cores(N_PROCESSES)
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder:
        data = Path(folder)
        n_users, n_items = n_ratings // PER_USER, n_ratings // PER_ITEM
        plant(data, params_for(ALGORITHM, {"n_factors": N_FACTORS}), n_users, n_items, n_ratings)
        population = Population.of_file(data / SAMPLE)
        os.sched_setaffinity(0, others)
        with (
            serving(data, own) as (client, pid),
            ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin) as reader,
        ):
            reader.submit(time.time).result()  # it runs
            phases = _Phases(client, pid, reader, population, rate_per_s)
            phases.measured("", seconds / 4)  # the first requests fill caches
            for number, format_ in enumerate(("", *formats, ""), 1):
                yield phases.measured(format_, LONGEST_S if format_ else seconds, number)


class _Phases(NamedTuple):
    """What all phases share."""

    client: Client
    pid: int
    reader: ProcessPoolExecutor
    population: Population
    rate_per_s: float

    def measured(self, format_: str, seconds: float, number: int = 0) -> Row:
        """Offer requests until the export has been read, for `seconds` at most; without a format just as long."""
        n_rows, before_s = self.client.get("/admin/stats")["ratings"], _reaped_s(self.pid)
        address, plan = self.client.address, Plan("mixed", self.rate_per_s, seconds, number)
        reading = self.reader.submit(read_export, address, format_) if format_ else None
        driven, probes = uvloop.run(_offered(Connections(address), self.population, plan, reading))
        row = _row(format_, driven, probes)
        if reading is not None and (read := reading.result()) is not None:
            rows_per_s, mb = round(n_rows / read.seconds), read.n_bytes / MB
            cpu_s = _reaped_s(self.pid) - before_s
            row = replace(row, export_s=read.seconds, rows_per_s=rows_per_s, mb=mb, cpu_s=cpu_s)
        say(str(row))
        return row


async def _offered(
    connections: Connections, population: Population, plan: Plan, reading: Reading | None
) -> tuple[Driven, Probes]:
    """Send the requests of `plan`, until `reading` has ended; probe freshness meanwhile."""
    others, probed = population.halves
    probes = Probes(connections, probed.users)
    await connections.open(plan.n_connections)
    probing = asyncio.create_task(probes.run(plan.seconds))
    wanted = itertools.takewhile(lambda _: reading is None or not reading.done(), arrivals(others, *plan))
    driven = await drive(connections, wanted)
    probing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await probing
    await connections.close()
    return driven, probes


def _begin() -> None:
    os.nice(NICENESS)  # and import this module


def read_export(url: str, format_: str) -> Read | None:
    """Read an export and drop it; None, and a line on stderr, if it fails or takes longer than `LONGEST_S`."""
    began_s, n_bytes = time.perf_counter(), 0

    def count(piece: bytes) -> None:
        nonlocal n_bytes
        n_bytes += len(piece)
        if time.perf_counter() - began_s > LONGEST_S:
            raise TimeoutError(f"the export in {format_} took longer than {LONGEST_S:g} s")

    try:
        with Client(url) as client:
            client.export(count, format=format_)
    except (RequestFailed, TimeoutError) as error:
        say(str(error))
        return None
    return Read(time.perf_counter() - began_s, n_bytes)


def _row(format_: str, driven: Driven, probes: Probes) -> Row:
    records = [driven.records.get(kind, Record()) for kind in ("read", "write")]
    n_good, fresh = sum(len(record.latencies_s) for record in records), probes.summary()
    read, write = (percentiles_ms(record.latencies_s) for record in records)
    return Row(
        format_ or "none",
        driven.seconds,
        n_good / driven.seconds,
        len(driven.late_s) - n_good + fresh["lost"],
        *(read.get("p50"), read.get("p99"), write.get("p50"), write.get("p99")),
        fresh["ms"].get("p99"),
        percentiles_ms(driven.late_s).get("p99"),
    )


def _reaped_s(pid: int) -> float:
    """Processor seconds of all ended children of the service, and of its processes but Redis."""
    service = psutil.Process(pid)
    processes = [one for one in (service, *service.children(recursive=True)) if one.name() not in REDIS]
    times = [one.cpu_times() for one in processes]
    return float(sum(one.children_user + one.children_system for one in times))
