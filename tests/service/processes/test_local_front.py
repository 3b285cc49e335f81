"""A service on one core, whose front is in the engine's process: it answers, dies, comes back and ends as any other."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from service.storage.events import ZERO
from service.storage.log.rating_log import RatingLog
from tests.service.process import Service
from tests.service.processes.service import gone
from tests.service.waiting import eventually

FAR = "9000000000000-0"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        service = Service(tmp_path / "data", backend="host", retrain_share=0)
    finally:
        os.sched_setaffinity(0, cores)
    yield service
    service.kill()


def test_it_answers_dies_comes_back_and_ends_without_a_loss(service: Service) -> None:
    names = {process.name() for process in service.processes()[1:]}
    assert names == {"nf-engine", "nf-archiver"}
    acknowledged = [service.rate(("ann", f"i{number}", 3.0)) for number in range(20)]
    series = dict(line.rsplit(" ", 1) for line in service.get("/metrics").text.splitlines() if line[:1] != "#")
    resident = sum(process.memory_info().rss for process in service.processes()[1:])
    assert float(series["process_resident_memory_bytes"]) < 1.2 * resident, "each process counts once"
    assert float(series["nearfield_connections"]) >= 1

    pid = service.signal("engine", signal.SIGKILL)
    eventually(lambda: service.pid("engine") != pid, 60)
    service.reconnect()
    eventually(service.is_ready, 60)
    assert len(service.get("/users/ann/ratings", wait_for=acknowledged[-1]).json()["ratings"]) == 20

    pid = service.signal("archiver", signal.SIGKILL)
    eventually(lambda: service.pid("archiver") != pid, 60)
    acknowledged.append(service.rate(("ann", "last", 5.0)))
    family = service.family()
    with ThreadPoolExecutor(1) as pool:
        in_flight = pool.submit(service.client.get, f"/popular?wait_for={FAR}")
        time.sleep(0.5)  # it is answered after two seconds
        for process in service.processes()[1:]:
            process.send_signal(signal.SIGINT)  # as Ctrl-C sends it to all
        service.process.send_signal(signal.SIGTERM)
        assert in_flight.result().json()["type"] == "urn:nearfield:problem:not-seen-yet"
    assert service.process.wait(60) == 0
    gone(family)
    archived = {
        f"{ms}-{seq}"
        for batch in RatingLog(service.data / "ratings").read(ZERO, ["index"])
        for ms, seq in zip(batch.column("ms").to_pylist(), batch.column("seq").to_pylist(), strict=True)
    }
    assert archived == set(acknowledged)


def test_its_clients_leave_while_the_archiver_still_ends(service: Service) -> None:
    family = service.family()
    with ThreadPoolExecutor(1) as pool:
        in_flight = pool.submit(service.client.get, f"/popular?wait_for={FAR}")
        time.sleep(0.5)  # it is answered after two seconds
        archiver = psutil.Process(service.signal("archiver", signal.SIGSTOP))
        with httpx.Client(base_url=service.client.base_url, timeout=60) as client:
            assert client.get("/health/ready").status_code == 200
            service.process.send_signal(signal.SIGTERM)

            def refused() -> httpx.Response | None:
                answer = client.get("/health/ready")
                return answer if answer.status_code == 503 else None

            answer = eventually(refused, 60)
            assert archiver.status() == psutil.STATUS_STOPPED, "it was waited for, and killed"
            assert (answer.json()["detail"], answer.headers["connection"]) == ("the service is stopping", "close")
        assert in_flight.result().status_code == 503
    assert service.process.wait(60) == 1, "the archiver had to be killed"
    gone(family)


def test_it_ends_with_its_parent(service: Service) -> None:
    family = [process for process in service.family() if process.pid != service.process.pid]
    os.kill(service.process.pid, signal.SIGKILL)
    service.process.wait(60)
    gone(family)
    assert not any(psutil.pid_exists(process.pid) and process.is_running() for process in family)
