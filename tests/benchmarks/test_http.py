"""The throughput of the service and of the bare routes, and the driver that measures both."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import http
from benchmarks.drive import Throughput, _drive
from loadtest.client import message

ANSWER = b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def every_core() -> Iterator[None]:
    """Gives back the cores that the measurement takes from its own process."""
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


def driven(statuses: Iterator[int], seconds: float = 0.2, n_connections: int = 3) -> tuple[Throughput, list[bytes]]:
    """Drive a server that answers with one status after the other, then closes; also the requests it got."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            requests.append(head)
            if (status := next(statuses, None)) is None:
                break
            writer.write(ANSWER % status)
        writer.close()

    async def main() -> Throughput:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            paths = [message("GET", f"/{n}", "Host: x\r\n") for n in range(2)]
            return await _drive(f"http://{host}:{port}", itertools.cycle(paths), seconds, n_connections)

    return asyncio.run(main()), requests


def test_each_connection_sends_its_next_request_after_an_answer() -> None:
    found, requests = driven(itertools.repeat(200))
    assert found.n_errors == 0
    assert found.per_second * 0.2 == pytest.approx(len(requests), rel=0.2)
    assert len(requests) > 100
    assert set(requests) == {b"GET /0 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"}
    assert 0 < found.p50_ms <= found.p99_ms < 200


def test_refusals_and_closed_connections_are_errors() -> None:
    found, _ = driven(iter([200, 503, 404, 200]), n_connections=1)
    assert found.n_errors == 3


@pytest.mark.slow
def test_service_and_bare_routes_are_measured_without_errors(tmp_path: Path, every_core: None) -> None:
    rows = [f"u{user},i{item},{1 + (user * item) % 5}" for user in range(40) for item in range(user % 3, 25, 3)]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,item,rating", *rows]))
    reads, writes = http.run(tmp_path / "ratings.csv", ["sgd"], 0.2, 1)
    for row in (reads, writes):
        assert row.n_errors == 0
        assert row.share == pytest.approx(row.service_per_second / row.bare_per_second)
        assert row.service_per_second > 10
