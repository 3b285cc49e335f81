"""Starts, fills and trains a service in its own process, and drives it over HTTP, for end-to-end measurements."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
import uvloop
from numpy.typing import NDArray

from benchmarks.results import say
from loadtest.client import Answer, Connection
from service.base.errors import ServiceError
from service.cli import importer
from service.cli.client import Client, RatingBody
from service.cli.files.ratings_file import RatingsFile
from service.cli.service_process import ServiceProcess

START_S = 600.0  # longest start; one with millions of items takes minutes
REDIS = ("redis-server", "valkey-server")  # names of the process


class BenchFailed(ServiceError):
    """A measurement is impossible; the message says why."""


@contextmanager
def serving(
    data: Path, cores: set[int] | None = None, env: dict[str, str] | None = None
) -> Iterator[tuple[Client, int]]:
    """Run `nearfield serve` on `data`; yields a client and the pid of the parent once the service is ready."""
    environment = {"NEARFIELD_RETRAIN_SHARE": "0"} | (env or {})  # no automatic retraining during a measurement
    with (
        ServiceProcess(data, environment=environment, cores=cores) as service,
        Client(service.address(timeout_s=START_S)) as client,
    ):
        yield client, service.child.pid


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """Run this process, the driver, on `cores` until the block ends."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def post(client: Client, users: Sequence[str], items: Sequence[str], values: NDArray[np.float32]) -> None:
    """Post ratings in full requests and wait until the service has seen the last one."""
    triples = zip(users, items, values.tolist(), strict=True)
    receipt = importer.send(client, (RatingBody(user=user, item=item, rating=rating) for user, item, rating in triples))
    if receipt.stream_id is not None:
        client.wait_for(receipt.stream_id)


def retrain(client: Client, algorithm: str) -> None:
    """Train `algorithm` in the service and wait until its model is live."""
    say(f"training {algorithm}")
    job = client.retrain(algorithm, force=True)
    if not job["promoted"]:
        raise BenchFailed(f"Invalid end of job {job['id']}: expected a promoted model, got {job}")


def prepare(data: Path, file: RatingsFile, algorithms: Sequence[str]) -> None:
    """Fill a data folder through the API: post all ratings, then train each algorithm and set its model live."""
    with serving(data) as (client, _):
        say(f"posting {len(file.values):,} ratings")
        post(client, file.users, file.items, file.values)
        for algorithm in algorithms:
            retrain(client, algorithm)


class Throughput(NamedTuple):
    """Answers per second, latency quantiles in milliseconds, and the number of errors."""

    per_second: float
    p50_ms: float
    p99_ms: float
    n_errors: int


class _Looping(Connection):
    """A connection that sends its next request after each answer until `end`, and keeps latencies and errors."""

    def __init__(self, requests: Iterator[bytes], end: float) -> None:
        super().__init__()
        self.requests, self.end, self.latencies_s, self.n_errors = requests, end, list[float](), 0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        super().connection_made(transport)
        self._send()

    def answered(self, answer: Answer, is_last: bool) -> None:
        """Record the answer; send the next request unless time is up."""
        now = time.perf_counter()
        self.latencies_s.append(now - self.sent)
        self.n_errors += answer.status >= 400
        if now < self.end and not is_last:
            self._send()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """A connection that the server closed early is an error."""
        self.n_errors += exc is not None or time.perf_counter() < self.end
        if not self.closed.done():
            self.closed.set_result(None)

    def _send(self) -> None:
        self.sent = time.perf_counter()
        self.transport.write(next(self.requests))


def drive(url: str, requests: Sequence[bytes], seconds: float, n_connections: int = 32) -> Throughput:
    """Send `requests` in turn to `url` (http://HOST:PORT) for `seconds` over `n_connections` connections."""
    return uvloop.run(driven(url, requests, seconds, n_connections))


async def driven(url: str, requests: Sequence[bytes], seconds: float, n_connections: int) -> Throughput:
    """`drive` in a running loop."""
    loop, address, turns = asyncio.get_running_loop(), urlsplit(url), itertools.cycle(requests)
    host, port, began = address.hostname or "127.0.0.1", address.port or 80, time.perf_counter()
    made = [
        (await loop.create_connection(lambda: _Looping(turns, began + seconds), host, port))[1]
        for _ in range(n_connections)
    ]
    await asyncio.wait_for(asyncio.gather(*(one.closed for one in made)), timeout=seconds + 30)
    took, latencies_s = time.perf_counter() - began, [second for one in made for second in one.latencies_s]
    p50, p99 = (np.percentile(latencies_s, [50, 99]) * 1e3).tolist()
    return Throughput(len(latencies_s) / took, p50, p99, sum(one.n_errors for one in made))
