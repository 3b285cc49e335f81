"""Files that the process may open, and what it does where there are few."""

import subprocess
import sys
from pathlib import Path

import pytest

from service.processes import http_server
from service.settings.settings import Settings
from service.storage.streams.redis_server import RedisServer


def serve(data: Path, n_files: int) -> subprocess.CompletedProcess[str]:
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2);"
        "from service.__main__ import run; sys.exit(run(['serve', '--port', '0', '--data', sys.argv[2]]))"
    )
    command = [sys.executable, "-c", code, str(n_files), str(data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("n_files", [256, http_server.SPARE_FILES + http_server.MIN_CONNECTIONS - 1])
def test_too_few_files_are_refused_at_the_start(tmp_path: Path, n_files: int) -> None:
    ended = serve(tmp_path / "data", n_files)
    assert ended.returncode == 2
    assert f"got {n_files}; raise it" in ended.stderr.replace("\n", " ")


def test_a_limit_of_open_files_that_lowers_connections_is_logged(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("service.processes.http_server.resource.getrlimit", lambda _: (1024, 1024))
    settings = http_server.within_files(Settings(max_connections=4096))
    assert settings.max_connections == 1024 - http_server.SPARE_FILES
    said = capfd.readouterr()
    assert "max_connections" in said.out + said.err


def test_few_connections_need_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.processes.http_server.resource.getrlimit", lambda _: (650, 650))
    assert http_server.within_files(Settings(max_connections=10)).max_connections == 10


HANGING = """
import sys, time
from service.processes import event_loop
event_loop.STOP_S = 8
from service.processes import runtime
from service.__main__ import run

async def hang(self):
    time.sleep(600)

runtime.Runtime.stop = hang
sys.exit(run(["serve", "--port", "0", "--data", sys.argv[1]]))
"""


def test_a_part_that_never_ends_does_not_keep_the_process(tmp_path: Path) -> None:
    """The parent kills it after a time. It says where each of its threads hangs, though it runs no Python any more."""
    command = [sys.executable, "-c", HANGING, str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "is ready" in process.stdout.readline()
            process.terminate()
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
            RedisServer(tmp_path / "data").stop()
    assert process.returncode == 1
    assert '"killed": "engine"' in errors
    assert "Thread 0x" in errors
    assert "in hang" in errors
