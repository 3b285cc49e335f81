"""`python -m benchmarks start`: seconds from `nearfield serve` to ready, and the memory of its processes afterward."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.http import prepare
from benchmarks.report import say
from benchmarks.running import REDIS, serving
from service.cli.files import ratings_file

MIB = 1 << 20
READS_BEFORE_MEASURING = 200


@dataclass(frozen=True)
class Row:
    """One start. Memory is the proportional set size (PSS) in MiB after `READS_BEFORE_MEASURING` reads.

    Attributes:
        start: what was there before.
        ready_seconds: from the command to the line that says that the service is ready.
        service_mib: of parent, fronts, engine and archiver together.
        redis_mib: of the embedded server.
    """

    start: str
    ready_seconds: float
    service_mib: float
    redis_mib: float


def run(ratings: Path, algorithms: Sequence[str]) -> Iterator[Row]:
    """An empty folder with an empty and with a warm compile cache, then a folder with one, two and more live models."""
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder:
        cache = {"NUMBA_CACHE_DIR": f"{folder}/cache"}
        yield _measured("empty folder, empty compile cache", Path(folder) / "a", cache)
        yield _measured("empty folder, warm compile cache", Path(folder) / "b", cache)
        file = ratings_file.read(ratings)
        prepare(Path(folder) / "c", file, algorithms[:1])
        yield _measured(f"{ratings.name}, live: {algorithms[0]}", Path(folder) / "c", {})
        for n in range(2, len(algorithms) + 1):
            prepare(Path(folder) / "c", file, algorithms[n - 1 : n])
            yield _measured(f"{ratings.name}, live: {', '.join(algorithms[:n])}", Path(folder) / "c", {})


def _measured(name: str, data: Path, env: dict[str, str]) -> Row:
    began = time.perf_counter()
    with serving(data, env=env) as (client, pid):
        ready = time.perf_counter() - began
        say(f"{name}: ready after {ready:.1f} s")
        for number in range(READS_BEFORE_MEASURING):
            client.recommend(str(number))
        redis, own = list[float](), list[float]()
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            (redis if process.name() in REDIS else own).append(process.memory_full_info().pss / MIB)
        return Row(name, ready, sum(own), sum(redis))
