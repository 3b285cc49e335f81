"""A closed-loop HTTP driver for ceilings: so many connections, each sending its next request when it has its answer.

It measures what a server can do at most. Latency under a given load is another question; `loadtest/` answers it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import httptools
import numpy as np
import uvloop


@dataclass
class Tally:
    """What the connections saw between `start` and `end` (seconds of the monotonic clock)."""

    end: float
    latencies_s: list[float] = field(default_factory=list)
    n_errors: int = 0


@dataclass(frozen=True)
class Throughput:
    """Requests answered a second, and the latency of one in milliseconds."""

    per_second: float
    p50_ms: float
    p99_ms: float
    n_errors: int


class Connection(asyncio.Protocol):
    """One keep-alive connection; `requests` are whole HTTP messages, ready to send."""

    def __init__(self, requests: Iterator[bytes], tally: Tally) -> None:
        self.requests, self.tally = requests, tally
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one, but does not inherit from it
        self._send()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, which calls `on_message_complete`."""
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Record the answer; send the next request unless time is up."""
        now = time.perf_counter()
        self.tally.latencies_s.append(now - self.sent)
        if self.parser.get_status_code() >= 400:
            self.tally.n_errors += 1
        if now < self.tally.end:
            self._send()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """A connection that the server closed early is an error."""
        if exc is not None or time.perf_counter() < self.tally.end:
            self.tally.n_errors += 1
        if not self.closed.done():
            self.closed.set_result(None)

    def _send(self) -> None:
        self.sent = time.perf_counter()
        self.transport.write(next(self.requests))


def drive(port: int, requests: Sequence[bytes], seconds: float, n_connections: int = 32) -> Throughput:
    """Send `requests` in turn to 127.0.0.1:`port` for so many seconds over `n_connections` connections."""
    return uvloop.run(_drive(port, itertools.cycle(requests), seconds, n_connections))


async def _drive(port: int, requests: Iterator[bytes], seconds: float, n_connections: int) -> Throughput:
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    tally = Tally(end=start + seconds)
    connections = [
        (await loop.create_connection(lambda: Connection(requests, tally), "127.0.0.1", port))[1]
        for _ in range(n_connections)
    ]
    await asyncio.wait_for(asyncio.gather(*(c.closed for c in connections)), timeout=seconds + 30)
    took = time.perf_counter() - start
    p50, p99 = np.percentile(tally.latencies_s, [50, 99]) * 1e3
    return Throughput(len(tally.latencies_s) / took, float(p50), float(p99), tally.n_errors)


def message(method: str, path: str, body: bytes = b"") -> bytes:
    """One HTTP/1.1 request as bytes."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body
