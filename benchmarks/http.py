"""The service over HTTP: `python -m benchmarks http`, `console` and `start`.

The server and its Redis run on one core, the driver on another. Rounds of what is compared alternate, so that noise of
the machine affects both. Tables show medians of rounds.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import httpx
import msgspec
import numpy as np
import psutil
import typer

from benchmarks import bare, options
from benchmarks.options import Algorithm, File, Names
from benchmarks.results import Row, say
from benchmarks.running import REDIS, Throughput, drive, on_cores, prepare, serving
from benchmarks.timing import MIB, in_turns, median_of
from loadtest.client import message
from service.cli.files.ratings_file import RatingsFile, read

BATCH, N_REQUESTS, N_BODIES = 100, 4096, 64
HEAD = "Host: 127.0.0.1\r\n"
WARM_UP_S = 1.0
IDLE_S = 30  # of `console`: seconds without other load
COUNTS_S, SIZES_S = 3, 10  # seconds between requests of a page, as console.js and overview.html have them
TWO_FRONTS = {"NEARFIELD_FRONTS": "2"}  # so that each has a process
READS, EMPTIES_CACHE = 200, True  # of `start`: reads before memory is measured; whether the first start compiles

Seconds = Annotated[float, typer.Option(help="Seconds per round.")]
Batches = Annotated[str, typer.Option(help="Plain lists that arrive together, such as 1,16; empty measures none.")]
Rounds = Annotated[int, typer.Option(help="Number of rounds, whose median is shown.")]


def http(
    ratings: File,
    algorithms: Names = "als-implicit",
    seconds: Seconds = 4.0,
    rounds: Rounds = 5,
    batches: Batches = "1,4,16,64",
) -> Iterator[Row]:
    """Throughput of GET /recommend and POST /ratings, and of bare routes of the same libraries.

    A second table has microseconds of processor time a plain list, of a front and of both threads of the engine's
    process, for each number of lists of `--batches` that are asked for at once.
    """
    server_core, driver_core = _two_cores()
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder:
        data, file = Path(folder), read(ratings)
        prepare(data / "service", file, options.algorithms(algorithms))
        requests = {"GET /recommend/{user}?n=10": _reads(file), f"POST /ratings, {BATCH} a request": _writes(file)}
        with (
            on_cores({driver_core}),
            serving(data / "service", {server_core}) as (client, _),
            bare.serving(data / "bare", {server_core}) as bare_url,
        ):
            for route, messages in requests.items():
                urls = {"bare": bare_url, "service": client.address}
                taken = _compared({name: _rounds(url, messages, seconds) for name, url in urls.items()}, rounds)
                per_second, p50_ms, p99_ms = median_of(taken["service"], "per_second", "p50_ms", "p99_ms")
                pairs = zip(taken["service"], taken["bare"], strict=True)
                yield {
                    "route": route, "service_per_second": per_second,
                    "bare_per_second": median_of(taken["bare"], "per_second")[0],
                    "share": statistics.median(own.per_second / base.per_second for own, base in pairs),
                    "service_p50_ms": p50_ms, "service_p99_ms": p99_ms,
                    "n_errors": sum(one.n_errors for of_one in taken.values() for one in of_one),
                }  # fmt: skip

        with on_cores({driver_core}), serving(data / "service", {server_core}, TWO_FRONTS) as (client, pid):
            for size in map(int, filter(None, batches.split(","))):
                yield _cost(client.address, pid, [f"/recommend/{user}?n=10" for user in _users(file)], size, seconds)


def _cost(url: str, pid: int, paths: Sequence[str], size: int, seconds: float) -> Row:
    """Processor time of a list, if one front finds `size` requests at once: it is paused while they are sent."""
    processes = {one.name(): one for one in psutil.Process(pid).children()}
    front, other, engine = (processes[f"nf-{name}"] for name in ("front-1", "front-2", "engine"))
    clients, turns = [HTTPConnection(urlsplit(url).netloc) for _ in range(size)], itertools.cycle(paths)
    with _paused(other):  # so that `front` gets all connections
        for client in clients:
            client.request("GET", paths[0])
            client.getresponse().read()
    for lasts_s in (WARM_UP_S, seconds):  # the second one counts
        n, until_s, before = 0, time.perf_counter() + lasts_s, [*_used_s(front), *_used_s(engine)]
        while time.perf_counter() < until_s:
            with _paused(front):
                for client in clients:
                    client.request("GET", next(turns))
            for client in clients:
                answer = client.getresponse()
                answer.read()
                n += answer.status == HTTPStatus.OK
    used_s = zip([*_used_s(front), *_used_s(engine)], before, strict=True)
    of_front, _, of_loop, of_thread = ((after - once) / n * 1e6 for after, once in used_s)
    for client in clients:
        client.close()
    return {"batch": size, "front_us": of_front, "engine_loop_us": of_loop, "engine_thread_us": of_thread}


def _used_s(process: psutil.Process) -> tuple[float, float]:
    """Seconds of processor time of the first thread of a process, which has its event loop, and of all others."""
    used_s = {one.id: one.user_time + one.system_time for one in process.threads()}
    return used_s.pop(process.pid), sum(used_s.values())


@contextmanager
def _paused(process: psutil.Process) -> Iterator[None]:
    process.suspend()
    try:
        while process.status() != psutil.STATUS_STOPPED:
            time.sleep(0)
        yield
    finally:
        process.resume()


def _rounds(url: str, requests: Sequence[bytes], seconds: float) -> Callable[[], Throughput]:
    """A round of `seconds`, after one that is not measured."""
    drive(url, requests, min(WARM_UP_S, seconds))
    return lambda: drive(url, requests, seconds)


def _compared(calls: dict[str, Callable[[], Throughput]], rounds: int) -> dict[str, list[Throughput]]:
    """The rounds of each call, in turn."""
    taken = in_turns(calls, rounds)
    for number in range(rounds):
        say("  ".join(f"{name} {of_one[number].per_second:,.0f}/s" for name, of_one in taken.items()))
    return taken


def _two_cores() -> tuple[int, int]:
    """A core for the server, and one for the driver."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


def _users(file: RatingsFile) -> list[str]:
    """Users of the file, drawn with a fixed seed."""
    users: list[str] = np.random.default_rng(0).choice(np.unique(np.asarray(file.users)), N_REQUESTS).tolist()
    return users


def _reads(file: RatingsFile) -> list[bytes]:
    """Plain reads of `_users`."""
    return [message("GET", f"/recommend/{user}?n=10", HEAD) for user in _users(file)]


def _writes(file: RatingsFile) -> list[bytes]:
    order = np.random.default_rng(1).permutation(len(file.values))[: N_BODIES * BATCH]
    rows = [{"user": file.users[n], "item": file.items[n], "rating": float(file.values[n])} for n in order.tolist()]
    bodies = [msgspec.json.encode(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
    return [message("POST", "/ratings", HEAD, body) for body in bodies]


def console(
    ratings: File,
    algorithm: Algorithm = "als-implicit",
    pages: Annotated[int, typer.Option(help="Open pages.", min=1)] = 1,
    seconds: Seconds = 6.0,
    rounds: Rounds = 5,
) -> Iterator[Row]:
    """Throughput of GET /recommend without and with open overviews of the console, on a service without keys.

    A page is played: it asks what the browser's asks, as often. `share` is of the reads in rounds without a page,
    `cpu_ms` the milliseconds of a core that the service takes in each second for the pages, without other load.
    """
    server_core, driver_core = _two_cores()
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder:
        file = read(ratings)
        prepare(Path(folder), file, [algorithm])
        with on_cores({driver_core}), serving(Path(folder), {server_core}) as (client, pid):
            plain = _rounds(client.address, _reads(file), seconds)

            def beside() -> Throughput:
                with open_pages(client.address, pages):
                    return plain()

            taken = _compared({"alone": plain, "with pages": beside}, rounds)
            service, used = [psutil.Process(pid), *psutil.Process(pid).children()], list[float]()
            for n in (0, pages):
                with open_pages(client.address, n):
                    before_s = sum(sum(one.cpu_times()[:2]) for one in service)
                    time.sleep(IDLE_S)
                    used.append(sum(sum(one.cpu_times()[:2]) for one in service) - before_s)
    pairs = zip(taken["with pages"], taken["alone"], strict=True)
    share = statistics.median(with_pages.per_second / alone.per_second for with_pages, alone in pairs)
    cpu_ms = (used[1] - used[0]) / IDLE_S * 1000
    for name, row in (
        ("alone", {"pages": 0, "share": 1.0, "cpu_ms": 0.0}),
        ("with pages", {"pages": pages, "share": share, "cpu_ms": cpu_ms}),
    ):
        per_second, p99_ms = median_of(taken[name], "per_second", "p99_ms")
        yield {**row, "reads_per_second": per_second, "p99_ms": p99_ms}


@contextmanager
def open_pages(url: str, n: int) -> Iterator[None]:
    """`n` open overviews, until the block ends."""
    over = threading.Event()

    def ask() -> None:
        seconds = 0
        with httpx.Client(base_url=f"{url}/console/") as client:
            client.get("overview").raise_for_status()
            while True:
                for page, every in (("counts", COUNTS_S), ("sizes", SIZES_S)):
                    if seconds % every == 0:
                        client.get(page).raise_for_status()
                if over.wait(1):
                    return
                seconds += 1

    threads = [threading.Thread(target=ask) for _ in range(n)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def start(ratings: File, algorithms: Names = "als-implicit,culsh") -> Iterator[Row]:
    """Seconds until ready with an empty and a warm compile cache, and resident memory of API and Redis.

    First of an empty folder, then of one with one, two and more live models. Memory is the proportional set size (PSS)
    in MiB after 200 reads, of parent, fronts, engine and archiver together, and of the embedded server.
    """
    names = options.algorithms(algorithms)
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder:
        cache = {"NUMBA_CACHE_DIR": f"{folder}/cache"} if EMPTIES_CACHE else {}
        yield _started("empty folder, empty compile cache", Path(folder) / "a", cache)
        yield _started("empty folder, warm compile cache", Path(folder) / "b", cache)
        file = read(ratings)
        for n, algorithm in enumerate(names, 1):
            prepare(Path(folder) / "c", file, [algorithm])
            yield _started(f"{ratings.name}, live: {', '.join(names[:n])}", Path(folder) / "c", {})


def _started(name: str, data: Path, env: dict[str, str]) -> Row:
    began = time.perf_counter()
    with serving(data, env=env) as (client, pid):
        ready = time.perf_counter() - began
        say(f"{name}: ready after {ready:.1f} s")
        for number in range(READS):
            client.recommend(str(number))
        mib = {True: 0.0, False: 0.0}  # of Redis, and of the service
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            mib[process.name() in REDIS] += process.memory_full_info().pss / MIB
        return {"start": name, "ready_seconds": ready, "service_mib": mib[False], "redis_mib": mib[True]}
