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
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from benchmarks.plant import SAMPLE, planted
from benchmarks.results import Row, say
from benchmarks.running import on_cores, serving
from gpu.algorithms import params_for
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

Reading = Future[tuple[float, int] | None]  # seconds and bytes of an export that was read in full


def export(
    n_ratings: Annotated[int, typer.Option(help="Synthetic ratings in the history.", min=1000)] = 10_000_000,
    rate: Annotated[float, typer.Option(help="Requests per second, half of them reads.", min=1)] = 500.0,
    seconds: Annotated[float, typer.Option(help="Seconds of a phase without an export.", min=1)] = 20.0,
    formats: Annotated[str, typer.Option(help="Comma-separated formats.")] = "ndjson,parquet,arrow",
) -> Iterator[Row]:
    """Milliseconds of reads, writes and freshness while all ratings are exported, and before and after; rows/s.

    `errors` are requests without a good answer, and probes of freshness that were lost. `sent_late_p99` is the driver's
    own share of the times. The last figures are of the export: None in a phase without one, or if it was given up.
    """
    own, others = cores(N_PROCESSES)
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder:
        data, params = Path(folder), params_for(ALGORITHM, {"n_factors": N_FACTORS})
        planted(data, params, n_ratings // PER_USER, n_ratings // PER_ITEM, n_ratings)
        population = Population.of_file(data / SAMPLE)
        with (
            on_cores(others),
            serving(data, own) as (client, _),
            ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin) as reader,
        ):
            reader.submit(time.time).result()  # it runs
            warming = Plan("mixed", rate, seconds / 4, 0)  # the first requests fill caches
            uvloop.run(_offered(Connections(client.address), population, warming, None))
            for number, format_ in enumerate(("", *formats.split(","), ""), 1):
                n_rows = client.get("/admin/stats")["ratings"]
                plan = Plan("mixed", rate, LONGEST_S if format_ else seconds, number)
                reading = reader.submit(read_export, client.address, format_) if format_ else None
                row = _phase(format_, *uvloop.run(_offered(Connections(client.address), population, plan, reading)))
                if reading is not None and (read := reading.result()) is not None:
                    export_s, n_bytes = read
                    row |= {"export_s": export_s, "rows_per_s": n_rows / export_s, "mb": n_bytes / 1e6}
                say(str(row))
                yield row


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


def read_export(url: str, format_: str) -> tuple[float, int] | None:
    """Read an export and drop it; None, and a line on stderr, if it fails or takes longer than `LONGEST_S`."""
    began_s, n_bytes = time.perf_counter(), 0

    def count(piece: bytes) -> None:
        nonlocal n_bytes
        n_bytes += len(piece)
        if time.perf_counter() - began_s > LONGEST_S:
            raise TimeoutError(f"the export in {format_} took longer than {LONGEST_S:g} s")

    try:
        with Client(url) as client:
            client.download("/admin/export", count, format=format_)
    except (RequestFailed, TimeoutError) as error:
        say(str(error))
        return None
    return time.perf_counter() - began_s, n_bytes


def _phase(format_: str, driven: Driven, probes: Probes) -> Row:
    records = [driven.records.get(kind, Record()) for kind in ("read", "write")]
    n_good, fresh = sum(len(record.latencies_s) for record in records), probes.summary()
    read, write = (percentiles_ms(record.latencies_s) for record in records)
    return {
        "export": format_ or "none", "seconds": driven.seconds, "per_s": n_good / driven.seconds,
        "errors": len(driven.late_s) - n_good + fresh["lost"], "read_p50": read.get("p50"),
        "read_p99": read.get("p99"), "write_p50": write.get("p50"), "write_p99": write.get("p99"),
        "fresh_p99": fresh["ms"].get("p99"), "sent_late_p99": percentiles_ms(driven.late_s).get("p99"),
        **dict.fromkeys(("export_s", "rows_per_s", "mb")),
    }  # fmt: skip
