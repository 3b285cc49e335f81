"""Redis hangs (SIGSTOP), refuses (out of memory, a read-only replica), or comes back: who waits, and for how long."""

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest
import redis

from service.storage.streams.redis_server import RedisServer
from tests.service.keys import RATINGS
from tests.service.process import Service
from tests.service.waiting import eventually, quickest_s

N_CLIENTS = 24
LONGEST_S = 45.0  # five or ten for Redis, the rest for a busy machine; who waits on is refused by nobody
SOON_S = 2.0  # milliseconds; who waits for Redis waits for five seconds
POST = "POST", "/ratings"
LIST = "GET", "/admin/jobs"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("hanging") / "data", backend="host")
    running.rate(("ann", "x", 4.0))
    yield running
    running.kill()


@pytest.fixture
def server(service: Service) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(RedisServer(service.data).url, decode_responses=True) as client:
        yield client


def ask(service: Service, method: str, path: str, number: int) -> tuple[float, httpx.Response]:
    body = {"user": "ann", "item": f"i{number}", "rating": 3} if method == "POST" else None
    started_s = time.monotonic()
    with httpx.Client(verify=False, timeout=60) as client:  # reading certificates takes 20 ms
        answer = client.request(method, f"{service.client.base_url}{path}", json=body)
    return time.monotonic() - started_s, answer


def ready(service: Service) -> bool:
    return service.get("/health/ready").status_code == 200


def reason(service: Service) -> str:
    return str(service.get("/health/ready").json().get("reason", ""))


def test_while_redis_hangs_writers_are_refused_in_time(service: Service, server: redis.Redis) -> None:
    process = psutil.Process(RedisServer(service.data).pid)
    process.suspend()
    try:
        with ThreadPoolExecutor(2 * N_CLIENTS) as pool:
            writes = [pool.submit(ask, service, *POST, number) for number in range(N_CLIENTS)]
            calls = [pool.submit(ask, service, *LIST, number) for number in range(N_CLIENTS)]
            waited = [one.result() for one in [*writes, *calls]]

            def median_s() -> float:
                later = [pool.submit(ask, service, *POST, number) for number in range(N_CLIENTS)]
                refused.extend(one.result() for one in later)
                return statistics.median(took_s for took_s, _ in refused[-N_CLIENTS:])

            refused: list[tuple[float, httpx.Response]] = []
            assert quickest_s(median_s, SOON_S) < SOON_S, "they waited for the one that tries to connect"
        for took_s, answer in [*waited, *refused]:
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
            assert took_s < LONGEST_S
        assert "redis" in reason(service).lower()
        assert service.get("/recommend/ann").status_code == 200
        n_refused = N_CLIENTS + len(refused)
        counted = f'nearfield_writes_refused_total{{reason="stream-unavailable"}} {n_refused}.0'
        eventually(lambda: counted in service.get("/metrics").text)  # a busy front tells it a page later
    finally:
        process.resume()
    eventually(lambda: ready(service), 60)
    service.rate(("ann", "after", 4.0))


def test_a_redis_without_memory_makes_the_service_unready_and_is_emptied(service: Service, server: redis.Redis) -> None:
    service.rate(*(("memory", f"m{n}", 3.0) for n in range(50)))
    server.config_set("maxmemory", "1")
    try:
        assert ask(service, *POST, 0)[1].status_code == 503
        eventually(lambda: "OOM" in reason(service), 60)
        eventually(lambda: server.xlen(RATINGS) == 0, 60)  # its entries are in the rating log by now
    finally:
        server.config_set("maxmemory", "0")
    eventually(lambda: ready(service), 60)
    last = service.rate(("memory", "m50", 3.0))
    assert len(service.get("/users/memory/ratings", wait_for=last).json()["ratings"]) == 51


def test_a_redis_close_to_its_limit_is_trimmed_before_it_refuses(service: Service, server: redis.Redis) -> None:
    server.config_set("maxmemory", str(int(server.info("memory")["used_memory"]) + 400_000))
    try:
        n_bytes = 0
        deadline_s = time.monotonic() + 200
        while n_bytes < 2_000_000:
            ratings = [{"user": f"long-{'x' * 200}-{n}", "item": "x", "rating": 1} for n in range(200)]
            answer = service.client.post("/ratings", json=ratings)
            assert answer.status_code in (202, 503)
            n_bytes += len(answer.request.content) if answer.status_code == 202 else 0
            assert time.monotonic() < deadline_s
    finally:
        server.config_set("maxmemory", "0")
    eventually(lambda: ready(service), 60)


def test_a_read_only_replica_makes_the_service_unready(service: Service, server: redis.Redis) -> None:
    server.replicaof("127.0.0.1", "1")
    try:
        assert ask(service, *POST, 0)[1].status_code == 503
        eventually(lambda: "READONLY" in reason(service), 60)
    finally:
        server.replicaof("NO", "ONE")
    eventually(lambda: ready(service), 60)
    service.rate(("ann", "again", 4.0))
