"""`python -m benchmarks console`: what an open overview of the console costs plain reads.

A page is played: it asks what the browser's asks, as often. Rounds with and without pages alternate. The service and
its Redis run on one core, the driver on another.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from benchmarks.drive import Throughput, drive
from benchmarks.http import prepare, read_requests, two_cores
from benchmarks.report import say
from benchmarks.running import serving
from service.cli.files.ratings_file import read

IDLE_S = 30  # seconds without other load
COUNTS_S, SIZES_S = 3, 10  # seconds between requests of a page, as console.js and overview.html have them


@dataclass(frozen=True)
class Row:
    """Reads a second and their p99 with so many pages open.

    Attributes:
        share: of the reads in rounds without a page.
        cpu_ms: milliseconds of a core that the service takes in each second for the pages, without other load.
    """

    pages: int
    reads_per_second: float
    p99_ms: float
    share: float
    cpu_ms: float


class OpenPages:
    """`n` open overviews, until the end of the context."""

    def __init__(self, url: str, n: int) -> None:
        self._url, self._over = url, threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(n)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        seconds = 0
        with httpx.Client(base_url=f"{self._url}/console/") as client:
            client.get("overview").raise_for_status()
            while True:
                for page, every in (("counts", COUNTS_S), ("sizes", SIZES_S)):
                    if seconds % every == 0:
                        client.get(page).raise_for_status()
                if self._over.wait(1):
                    return
                seconds += 1


def run(ratings: Path, algorithm: str, n_pages: int, seconds: float, rounds: int) -> list[Row]:
    """Measure on a model trained from the file `ratings`, on a service without keys."""
    server_core, driver_core = two_cores()
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder:
        file = read(ratings)
        prepare(Path(folder), file, [algorithm])
        os.sched_setaffinity(0, {driver_core})
        with serving(Path(folder), {server_core}) as (client, pid):
            requests, found = read_requests(file), list[tuple[Throughput, Throughput]]()
            drive(client.address, requests, 1.0)
            for number in range(rounds):
                alone = drive(client.address, requests, seconds)
                with OpenPages(client.address, n_pages):
                    found.append((alone, drive(client.address, requests, seconds)))
                say(f"round {number + 1}: {alone.per_second:,.0f}/s, with pages {found[-1][1].per_second:,.0f}/s")
            cpu_ms = _cpu_ms(pid, client.address, n_pages)
    shares = [with_pages.per_second / alone.per_second for alone, with_pages in found]
    without, beside = zip(*found, strict=True)
    return [_row(0, without, [1.0], 0.0), _row(n_pages, beside, shares, cpu_ms)]


def _row(pages: int, found: tuple[Throughput, ...], shares: list[float], cpu_ms: float) -> Row:
    per_second = statistics.median(one.per_second for one in found)
    return Row(pages, per_second, statistics.median(one.p99_ms for one in found), statistics.median(shares), cpu_ms)


def _cpu_ms(pid: int, url: str, n_pages: int) -> float:
    """See `Row`; over `IDLE_S` with the pages, less what as long a time without them takes."""
    service, used = [psutil.Process(pid), *psutil.Process(pid).children()], list[float]()
    for n in (0, n_pages):
        with OpenPages(url, n):
            before_s = _processor_s(service)
            time.sleep(IDLE_S)
            used.append(_processor_s(service) - before_s)
    return (used[1] - used[0]) / IDLE_S * 1000


def _processor_s(processes: Sequence[psutil.Process]) -> float:
    return float(sum(sum(one.cpu_times()[:2]) for one in processes))
