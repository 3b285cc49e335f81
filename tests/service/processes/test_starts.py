"""How a service of several processes begins and ends: refused starts, early and late signals, a Redis that hangs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from service.storage.streams.redis_server import RedisServer
from tests.service import fork_server
from tests.service.processes.service import N_FRONTS, FrontService, gone
from tests.service.waiting import eventually

ENDED_S = 60.0  # on a busy machine


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontService]:
    running = FrontService(tmp_path_factory.mktemp("starts") / "data")
    yield running
    running.kill()


def settings_of(**settings: object) -> dict[str, str]:
    given = {"fronts": N_FRONTS, "backend": "host", "log_format": "json"} | settings
    return {f"NEARFIELD_{name.upper()}": str(value) for name, value in given.items()}


def refused(data: Path, port: int = 0, **settings: object) -> str:
    """What a start says that fails with status 1."""
    arguments = ["serve", "--port", str(port), "--data", str(data)]
    status, said, errors = fork_server.ran(arguments, **settings_of(**settings))
    assert (status, said) == (1, ""), errors
    assert "Traceback" not in errors
    return errors


def test_a_folder_in_use_is_named_with_the_process_that_holds_it(service: FrontService) -> None:
    errors = refused(service.data)
    assert f"is in use by process {service.pid('engine')}: stop that process first" in errors
    assert service.is_ready()
    assert service.get("/popular").status_code == 200


def test_a_port_in_use_is_said(service: FrontService, tmp_path: Path) -> None:
    errors = refused(tmp_path / "data", service.client.base_url.port or 0)
    assert "in use" in errors


WITHOUT_A_LINE = """
from service.__main__ import main
from service.processes import engine_process

async def failing(*arguments):
    raise TypeError("boom")

engine_process._announce = failing
main()
"""


def test_a_service_that_cannot_say_that_it_is_ready_ends(tmp_path: Path) -> None:
    """A script that waits for the line would wait for ever."""
    environment = os.environ | {"NEARFIELD_BACKEND": "host", "NEARFIELD_FRONTS": str(N_FRONTS)}
    command = [sys.executable, "-c", WITHOUT_A_LINE, "serve", "--port", "0", "--data", str(tmp_path / "data")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "cannot say that it is ready" in done.stderr
    assert "boom" in done.stderr


def test_a_redis_that_is_not_durable_is_refused_at_the_start(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "weak", "everysec")
    server.start()
    try:
        errors = refused(tmp_path / "data", redis=server.url)
        assert "appendfsync" in errors
    finally:
        server.stop()


def test_gpus_that_are_not_there_are_refused_at_the_start(tmp_path: Path) -> None:
    assert "Invalid ranking_gpus: expected 1, because models answer on the host" in refused(tmp_path, ranking_gpus=2)


@pytest.mark.parametrize("n_children", [0, 2 + N_FRONTS])
def test_sigterm_during_the_start_ends_in_order(tmp_path: Path, n_children: int) -> None:
    """SIGTERM comes when the parent has `n_children`; with 0, before it has imported its modules."""
    command, pipe = [sys.executable, "-m", "service", "serve", "--port", "0"], subprocess.PIPE
    environment = os.environ | settings_of(data=tmp_path / "data")
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        parent = psutil.Process(process.pid)
        eventually(lambda: len(parent.children()) >= n_children, ENDED_S)
        family = [parent, *parent.children(recursive=True)]
        process.terminate()
        _, errors = process.communicate(timeout=ENDED_S)
    assert process.returncode == (0 if n_children else -signal.SIGTERM), errors
    assert "Traceback" not in errors
    gone(family)
    assert not RedisServer(tmp_path / "data").is_alive


def test_sigterm_while_redis_hangs_refuses_what_waits_and_ends_in_time(service: FrontService) -> None:
    """The last test of this service: what was acknowledged is there when it starts again."""
    service.rate(("ann", "x", 4.0))
    family = service.family()
    hanging = psutil.Process(RedisServer(service.data).pid)
    hanging.suspend()
    body = {"user": "ann", "item": "y", "rating": 3}
    url = f"{service.client.base_url}/ratings"
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(httpx.post, url, json=body, timeout=60) for _ in range(4)]
        eventually(lambda: n_connections(service) > len(waiting))  # they wait for five seconds
        assert service.stop() == 0, "it ends by force after twenty seconds"
        assert {answer.result().status_code for answer in waiting} == {503}
    gone(family)
    service.start()
    assert "x" in {one["item"] for one in service.get("/users/ann/ratings").json()["ratings"]}


def n_connections(service: FrontService) -> float:
    lines = service.get("/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith("nearfield_connections ")).split()[1])
