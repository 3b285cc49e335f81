"""A closed-loop HTTP driver for ceilings: `n_connections`, each of which sends its next request after its answer.

It measures what a server can do at most. Latency under a given load is another question; `loadtest/` answers it. Where
wrk is installed it drives; the driver written here tops out near 10,000 requests a second and is for its absence.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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


_WRK_SCRIPT = """
local requests, next_one = {}, 0
local file = io.open("%s", "rb")
for length in function() return file:read("*l") end do requests[#requests + 1] = file:read(tonumber(length)) end
request = function() next_one = next_one %% #requests + 1 return requests[next_one] end
done = function(all, latency)
  local e = all.errors
  local failed = e.connect + e.read + e.write + e.status + e.timeout
  print(string.format("\\n@ %%d %%d %%d %%d %%d", all.requests, all.duration, latency:percentile(50),
    latency:percentile(99), failed))
end
"""


def name() -> str:
    """The driver that `drive` uses here."""
    return "wrk" if shutil.which("wrk") else "python"


def drive(port: int, requests: Sequence[bytes], seconds: float, n_connections: int = 32) -> Throughput:
    """Send `requests` in turn to 127.0.0.1:`port` for `seconds` over `n_connections` connections."""
    if name() == "wrk":
        return _drive_wrk(port, requests, seconds, n_connections)
    return uvloop.run(_drive(port, itertools.cycle(requests), seconds, n_connections))


def _drive_wrk(port: int, requests: Sequence[bytes], seconds: float, n_connections: int) -> Throughput:
    with tempfile.TemporaryDirectory(prefix="nearfield-wrk-") as folder:
        script, data = Path(folder) / "script.lua", Path(folder) / "requests"
        data.write_bytes(b"".join(b"%d\n%b" % (len(request), request) for request in requests))
        script.write_text(_WRK_SCRIPT % data, "utf-8")
        duration = f"{max(1, round(seconds))}s"
        command = ["wrk", "-t1", f"-c{n_connections}", f"-d{duration}", "-s", str(script), f"http://127.0.0.1:{port}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    line = next(line for line in done.stdout.splitlines() if line.startswith("@"))
    n_requests, took_us, p50_us, p99_us, n_errors = map(int, line.split()[1:])
    return Throughput(n_requests / took_us * 1e6, p50_us / 1e3, p99_us / 1e3, n_errors)


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
