"""A closed-loop HTTP driver: each connection sends its next request after each answer.

It measures the highest throughput of a server; `loadtest/` measures latency at a fixed rate. It takes about 10 µs of a
core per request.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
import uvloop

from loadtest.client import Answer, Connection


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
