"""Ten thousand connections that say nothing: others are answered as fast as without them, and they are closed."""

import resource
import socket
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.processes.http_server import SPARE_FILES
from tests.faults import results
from tests.service.process import Service
from tests.service.waiting import eventually

N_IDLE = 10_000 if results.IS_LONG else 2_000
N_ADDRESSES = 5  # 127.0.0.2 and on: a quarter of all connections is the most for each
N_ASKED = 1_000 if results.IS_LONG else 300
RATIO, SPARE_S = 5.0, 0.02  # of a shared machine, on which a lone answer may take that long too
N_ROUNDS = 5  # of measurements; what runs beside them adds to the time of some


@pytest.fixture
def n_idle() -> Iterator[int]:
    """As many as this process and the service may open, `N_IDLE` at most."""
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        soft = max(soft, min(hard, 2 * N_IDLE))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    n_idle = min(N_IDLE, 3 * (soft - SPARE_FILES) // 4)
    if n_idle < 500:
        pytest.skip(f"this process may open {soft} files, too few for idle connections")
    yield n_idle
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_idle_connections_cost_others_nothing(tmp_path: Path, n_idle: int) -> None:
    service = Service(tmp_path / "data", max_connections=n_idle * 4 // 3, worker=True, backend="host")
    idle: list[socket.socket] = []
    try:
        service.rate(*((f"u{n % 30}", f"i{n % 11}", float(n % 5)) for n in range(200)))
        service.train("als", n_factors=8, n_epochs=2)
        latencies(service)  # until everything is warm
        for _ in range(N_ROUNDS):
            before = latencies(service)
            begun_s = time.monotonic()
            idle += [connected(service, number) for number in range(n_idle)]
            during = latencies(service)
            were_open = n_open(service) >= n_idle
            took_s = time.monotonic() - begun_s
            shares = 0.5, 0.99
            is_fast = all(quantile(during, one) <= RATIO * quantile(before, one) + SPARE_S for one in shares)
            eventually(lambda: n_open(service) < 5, 60)
            if were_open and is_fast:
                break
        results.MEASURED.append(
            f"{n_idle:,} idle connections for {took_s:.1f} s: GET /recommend {said(during)}; before {said(before)}"
        )
        assert were_open, "they were closed before the end of the measurement"
        assert is_fast, results.MEASURED[-1]
        assert len(latencies(service)) == N_ASKED
    finally:
        for connection in idle:
            connection.close()
        service.kill()


def connected(service: Service, number: int) -> socket.socket:
    source = f"127.0.0.{2 + number % N_ADDRESSES}"
    return socket.create_connection(("127.0.0.1", service.client.base_url.port or 0), 20, (source, 0))


def latencies(service: Service) -> list[float]:
    """Seconds of `N_ASKED` requests on one connection, one after the other, sorted."""
    took_s = []
    for number in range(N_ASKED):
        begun_s = time.perf_counter()
        answer = service.get(f"/recommend/u{number % 30}", n=10)
        took_s.append(time.perf_counter() - begun_s)
        assert answer.status_code == 200, answer.text
    return sorted(took_s)


def n_open(service: Service) -> int:
    text = service.get("/metrics").text
    return int(float(next(line for line in text.splitlines() if line.startswith("nearfield_connections")).split()[1]))


def quantile(ordered: list[float], share: float) -> float:
    return ordered[int(share * (len(ordered) - 1))]


def said(ordered: list[float]) -> str:
    return f"p50 {1000 * statistics.median(ordered):.1f} ms, p99 {1000 * quantile(ordered, 0.99):.1f} ms"
