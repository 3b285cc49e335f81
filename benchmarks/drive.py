"""A closed-loop HTTP driver: each connection sends its next request after each answer.

It measures the highest throughput of a server; `loadtest/` measures latency at a fixed rate. It uses wrk if that is
installed. Otherwise it uses its own driver, which takes about 10 µs of a core per request.
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
from urllib.parse import urlsplit

import numpy as np
import uvloop

from loadtest.client import Answer, Connection


@dataclass
class Tally:
    """Latencies and errors of all connections until `end` (seconds of `time.perf_counter`)."""

    end: float
    latencies_s: list[float] = field(default_factory=list)
    n_errors: int = 0


@dataclass(frozen=True)
class Throughput:
    """Answers per second, latency quantiles in milliseconds, and the number of errors."""

    per_second: float
    p50_ms: float
    p99_ms: float
    n_errors: int


class _Looping(Connection):
    """A connection that sends its next request after each answer until the tally ends."""

    def __init__(self, requests: Iterator[bytes], tally: Tally) -> None:
        super().__init__()
        self.requests, self.tally = requests, tally
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        super().connection_made(transport)
        self._send()

    def answered(self, answer: Answer, is_last: bool) -> None:
        """Record the answer; send the next request unless time is up."""
        now = time.perf_counter()
        self.tally.latencies_s.append(now - self.sent)
        if answer.status >= 400:
            self.tally.n_errors += 1
        if now < self.tally.end and not is_last:
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
    """Name of the driver that `drive` uses on this machine: "wrk" or "python"."""
    return "wrk" if shutil.which("wrk") else "python"


def drive(url: str, requests: Sequence[bytes], seconds: float, n_connections: int = 32) -> Throughput:
    """Send `requests` in turn to `url` (http://HOST:PORT) for `seconds` over `n_connections` connections."""
    if name() == "wrk":
        return _drive_wrk(url, requests, seconds, n_connections)
    return uvloop.run(_drive(url, itertools.cycle(requests), seconds, n_connections))


def _drive_wrk(url: str, requests: Sequence[bytes], seconds: float, n_connections: int) -> Throughput:
    with tempfile.TemporaryDirectory(prefix="nearfield-wrk-") as folder:
        script, data = Path(folder) / "script.lua", Path(folder) / "requests"
        data.write_bytes(b"".join(b"%d\n%b" % (len(request), request) for request in requests))
        script.write_text(_WRK_SCRIPT % data, "utf-8")
        duration = f"{max(1, round(seconds))}s"
        command = ["wrk", "-t1", f"-c{n_connections}", f"-d{duration}", "-s", str(script), url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    line = next(line for line in done.stdout.splitlines() if line.startswith("@"))
    n_requests, took_us, p50_us, p99_us, n_errors = map(int, line.split()[1:])
    return Throughput(n_requests / took_us * 1e6, p50_us / 1e3, p99_us / 1e3, n_errors)


async def _drive(url: str, requests: Iterator[bytes], seconds: float, n_connections: int) -> Throughput:
    loop, address = asyncio.get_running_loop(), urlsplit(url)
    host, port = address.hostname or "127.0.0.1", address.port or 80
    start = time.perf_counter()
    tally = Tally(end=start + seconds)
    connections = [
        (await loop.create_connection(lambda: _Looping(requests, tally), host, port))[1] for _ in range(n_connections)
    ]
    await asyncio.wait_for(asyncio.gather(*(c.closed for c in connections)), timeout=seconds + 30)
    took = time.perf_counter() - start
    p50, p99 = np.percentile(tally.latencies_s, [50, 99]) * 1e3
    return Throughput(len(tally.latencies_s) / took, float(p50), float(p99), tally.n_errors)
