"""`python -m benchmarks http`: throughput of the hot routes, and of bare routes of the same libraries.

The server and its Redis run on one core, the driver on another. Rounds of the service and of the bare routes alternate,
so that noise of the machine affects both. The table shows medians of rounds.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from benchmarks import bare
from benchmarks.drive import Throughput, drive
from benchmarks.drive import name as driver_name
from benchmarks.report import say
from benchmarks.running import post, retrain, serving
from loadtest.client import message
from service.cli.files.ratings_file import RatingsFile, read

BATCH = 100
N_REQUESTS = 4096
N_BODIES = 64
HEAD = "Host: 127.0.0.1\r\n"


@dataclass(frozen=True)
class Row:
    """One route: requests per second of the service and of the bare route, and their ratio."""

    route: str
    service_per_second: float
    bare_per_second: float
    share: float
    service_p50_ms: float
    service_p99_ms: float
    n_errors: int
    driver: str


def run(ratings: Path, algorithms: Sequence[str], seconds: float, rounds: int) -> list[Row]:
    """Measure both routes on a model trained from the file `ratings`."""
    server_core, driver_core = two_cores()
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder:
        data = Path(folder)
        file = read(ratings)
        prepare(data / "service", file, algorithms)
        reads, writes = read_requests(file), _write_requests(file)
        os.sched_setaffinity(0, {driver_core})
        with (
            serving(data / "service", {server_core}) as (client, _),
            bare.serving(data / "bare", {server_core}) as bare_url,
        ):
            return [
                _compare("GET /recommend/{user}?n=10", client.address, bare_url, reads, seconds, rounds),
                _compare(f"POST /ratings, {BATCH} a request", client.address, bare_url, writes, seconds, rounds),
            ]


def prepare(data: Path, file: RatingsFile, algorithms: Sequence[str]) -> None:
    """Fill a data folder through the API: post all ratings, then train each algorithm and set its model live."""
    with serving(data) as (client, _):
        say(f"posting {len(file.values):,} ratings")
        post(client, file.users, file.items, file.values)
        for algorithm in algorithms:
            say(f"training {algorithm}")
            retrain(client, algorithm)


def two_cores() -> tuple[int, int]:
    """A core for the server, and one for the driver."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


def _compare(
    route: str, url: str, bare_url: str, requests: Sequence[bytes], seconds: float, rounds: int,
) -> Row:  # fmt: skip
    ours: list[Throughput] = []
    theirs: list[Throughput] = []
    drive(url, requests, 1.0)
    drive(bare_url, requests, 1.0)
    for number in range(rounds):
        theirs.append(drive(bare_url, requests, seconds))
        ours.append(drive(url, requests, seconds))
        say(f"{route} round {number + 1}: {ours[-1].per_second:,.0f}/s, bare {theirs[-1].per_second:,.0f}/s")
    return Row(
        route,
        statistics.median(t.per_second for t in ours),
        statistics.median(t.per_second for t in theirs),
        statistics.median(a.per_second / b.per_second for a, b in zip(ours, theirs, strict=True)),
        statistics.median(t.p50_ms for t in ours),
        statistics.median(t.p99_ms for t in ours),
        sum(t.n_errors for t in ours + theirs),
        driver_name(),
    )


def read_requests(file: RatingsFile) -> list[bytes]:
    """Plain reads of users of the file, drawn with a fixed seed."""
    users = np.random.default_rng(0).choice(np.unique(np.asarray(file.users)), N_REQUESTS)
    return [message("GET", f"/recommend/{user}?n=10", HEAD) for user in users]


def _write_requests(file: RatingsFile) -> list[bytes]:
    order = np.random.default_rng(1).permutation(len(file.values))[: N_BODIES * BATCH]
    rows = [{"user": file.users[n], "item": file.items[n], "rating": float(file.values[n])} for n in order.tolist()]
    bodies = [msgspec.json.encode(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
    return [message("POST", "/ratings", HEAD, body) for body in bodies]
