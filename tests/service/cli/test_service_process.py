"""A service as a child process: where it runs, when it is ready, and how it ends."""

import os
from pathlib import Path

import psutil
import pytest

from service.cli.client import Client, RequestFailed
from service.cli.service_process import NotStarted, ServiceProcess


def test_a_service_runs_on_its_cores_until_the_block_ends(tmp_path: Path) -> None:
    core, waits, errors = min(os.sched_getaffinity(0)), list[None](), tmp_path / "stderr"
    with (
        errors.open("wb") as log,
        ServiceProcess(
            tmp_path / "data", environment={"NEARFIELD_LOG_FORMAT": "json"}, cores={core}, log=log, own_session=True
        ) as service,
        Client(service.address(on_wait=lambda: waits.append(None))) as client,
    ):
        client.check_ready()
        processes = [service.child.pid, *(child.pid for child in psutil.Process(service.child.pid).children())]
        threads = [int(thread.name) for pid in processes for thread in Path(f"/proc/{pid}/task").iterdir()]
        assert len(threads) > 4
        assert {frozenset(os.sched_getaffinity(thread)) for thread in threads} == {frozenset({core})}
        assert os.getsid(service.child.pid) == service.child.pid
        assert waits
        assert service.stop() == 0
        with pytest.raises(RequestFailed):
            client.check_live()
    assert errors.read_text().startswith("{")


def test_a_service_that_ends_before_it_is_ready_is_an_error(tmp_path: Path) -> None:
    errors = tmp_path / "stderr"
    with (
        errors.open("wb") as log,
        ServiceProcess(tmp_path / "data", port=99999, log=log) as service,
        pytest.raises(NotStarted, match="the service ended with status 2 before it was ready"),
    ):
        service.address()
    assert "Invalid port" in errors.read_text()


def test_a_service_that_is_not_ready_in_time_is_an_error_and_is_stopped(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path / "data") as service:
        with pytest.raises(NotStarted, match=r"the service was not ready after 0\.01 s"):
            service.address(timeout_s=0.01)
        assert service.child.poll() is None
    assert service.child.poll() is not None
