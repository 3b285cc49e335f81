"""`nearfield doctor`: what it says of machines that can run a service, and of those that cannot."""

import collections
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from gpu.base.backend import Backend
from service.__main__ import run
from service.base.errors import Unavailable
from service.cli import doctor
from service.processes import http_server
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings
from service.storage.streams.redis_client import connect
from service.storage.streams.redis_server import find_binary
from service.storage.streams.verification import Verification
from tests.service.keys import VERIFIED
from tests.service.waiting import eventually

NAMES = ["python", "openmp", "settings", "gpu", "redis", "clock", "disk", "files"]


def call(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | variables)


def found(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
    assert done.stderr == ""
    return {one["check"]: (one["state"], one["message"]) for one in json.loads(done.stdout)}


@pytest.fixture
def volatile_url(tmp_path: Path) -> Iterator[str]:
    """A server that keeps nothing on a disk."""
    path = tmp_path / "s"
    command = [str(find_binary()), "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    eventually(path.exists, 60)
    yield f"unix://{path}"
    server.kill()
    server.wait()


def test_a_durable_redis_is_fine_and_gets_no_key(redis_url: str, tmp_path: Path) -> None:
    done = call("--redis", redis_url, "--data", str(tmp_path / "new" / "data"), "--backend", "host", "--json")
    findings = found(done)
    assert list(findings) == NAMES
    assert {state for state, _ in findings.values()} == {"ok"}
    assert done.returncode == 0
    assert "which keeps what it acknowledges" in findings["redis"][1]
    assert not list(tmp_path.iterdir())
    with connect(redis_url) as client:
        assert client.keys() == [VERIFIED.encode()]  # of the fixture


def test_what_runs_after_it_logs_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()
    assert run(["doctor", "--data", str(tmp_path), "--backend", "host"]) == 0
    assert structlog.get_config() == before
    assert len(capsys.readouterr().out.splitlines()) == len(NAMES)


def test_each_line_has_a_state_and_a_check(tmp_path: Path) -> None:
    done = call("--data", str(tmp_path), "--backend", "host")
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines] == [["ok", f"{name}:"] for name in NAMES]
    assert done.returncode == 0
    assert str(find_binary()) in done.stdout


def test_a_redis_that_does_not_answer_fails_and_the_other_checks_go_on(tmp_path: Path) -> None:
    done = call("--redis", "redis://:secret@127.0.0.1:1", "--data", str(tmp_path), "--json")
    findings = found(done)
    assert done.returncode == 1
    assert list(findings) == NAMES
    assert [name for name, (state, _) in findings.items() if state == "fail"] == ["redis", "clock"]
    assert "secret" not in done.stdout


def test_a_redis_that_could_lose_ratings_fails(volatile_url: str, tmp_path: Path) -> None:
    state, message = found(call("--redis", volatile_url, "--data", str(tmp_path), "--json"))["redis"]
    assert (state, message[:46]) == ("fail", "Invalid appendonly of the Redis server: expect")


@pytest.mark.parametrize(
    ("variables", "state", "part"),
    [
        ({"NEARFIELD_PORT": "99999"}, "fail", "Invalid port: expected at most 65535, got '99999'"),
        ({"NEARFIELD_HOST": "0.0.0.0"}, "fail", "set NEARFIELD_API_KEY and NEARFIELD_ADMIN_KEY"),
        ({"NEARFIELD_QUITE_ANOTHER": "1"}, "warn", "NEARFIELD_QUITE_ANOTHER"),
    ],
)
def test_wrong_settings_are_told(tmp_path: Path, variables: dict[str, str], state: str, part: str) -> None:
    done = call("--data", str(tmp_path), "--backend", "host", "--json", **variables)
    findings = found(done)
    assert findings["settings"][0] == state
    assert part in findings["settings"][1]
    assert done.returncode == (state == "fail")


def test_settings_for_a_gpu_fail_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu.base.device.obstacle", lambda: "no driver")
    assert doctor.gpu(Settings(backend="auto"))[0] == "warn"
    told = doctor.finding("gpu", lambda: doctor.gpu(Settings(backend="device")))
    assert told.state == "fail"
    assert "no driver" in told.message


def test_a_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "choose", lambda wanted: Backend("device", "a fast one"))
    assert doctor.gpu(Settings()) == ("ok", "the service uses a fast one")


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_clock_that_is_wrong_is_told(redis_url: str, monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    settings, told = Settings(redis=redis_url), Verification.clock_ms
    assert doctor.clock(settings)[0] == "ok"
    monkeypatch.setattr(Verification, "clock_ms", lambda server: (told(server) or 0) + minutes * 60_000)
    state, message = doctor.clock(settings)
    assert state == "warn"
    assert ("ahead of" if minutes > 0 else "behind") in message
    assert any(f"{seconds}." in message for seconds in (599, 600))


def test_a_redis_that_tells_little_is_no_failure(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(redis_url) as client:
        client.execute_command("ACL SETUSER shy on >p ~* &* +@all -config -time -info")
    settings = Settings(redis=f"{redis_url.replace('unix://', 'unix://shy:p@')}")
    try:
        assert [doctor.redis(settings)[0], doctor.clock(settings)[0]] == ["warn", "warn"]
    finally:
        with connect(redis_url) as client:
            client.acl_deluser("shy")


@pytest.mark.parametrize("version", ["5.0.14", "6.0.9"])
def test_an_old_redis_fails(redis_url: str, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(Verification, "info", lambda server, section: {"redis_version": version})
    state, message = doctor.redis(Settings(redis=redis_url))
    assert (state, version in message) == ("fail", True)


def test_a_server_to_embed_that_is_missing_or_does_not_run_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_binary", lambda: Path("/bin/false"))
    assert doctor.redis(Settings())[0] == "fail"
    monkeypatch.setattr(doctor, "find_binary", lambda: tmp_path / "none")
    assert doctor.finding("redis", lambda: doctor.redis(Settings())).state == "fail"


def test_a_folder_that_is_a_file_fails_and_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for data in (tmp_path / "file", tmp_path / "file" / "data"):
        state, message = doctor.disk(Settings(data=data))
        assert (state, "Not a directory" in message) == ("fail", True)
    usage = collections.namedtuple("usage", "free")
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage(5 * 10**8))
    assert doctor.disk(Settings(data=tmp_path))[0] == "warn"


def test_a_disk_that_cannot_sync_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("service.storage.files.fsync", fsync)
    state, message = doctor.disk(Settings(data=tmp_path))
    assert (state, "Input/output error" in message) == ("fail", True)


@pytest.mark.parametrize(("n_files", "state"), [(300, "fail"), (1024, "warn"), (10_000, "ok")])
def test_the_limit_of_open_files_is_told(monkeypatch: pytest.MonkeyPatch, n_files: int, state: str) -> None:
    monkeypatch.setattr("service.processes.http_server.resource.getrlimit", lambda _: (n_files, n_files))
    told = doctor.finding("files", lambda: doctor.open_files(http_server.within_files, Settings(max_connections=4096)))
    assert told.state == state


def test_threads_and_python_that_kernels_cannot_use_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "threading_layer", lambda: "omp")
    monkeypatch.setattr(doctor, "openmp_obstacle", lambda: "libgomp.so.1: cannot open")
    assert doctor.openmp()[0] == "fail"
    monkeypatch.setattr(doctor, "threading_layer", lambda: "workqueue")
    assert doctor.openmp()[0] == "warn"
    monkeypatch.setattr("service.cli.doctor.sys.version_info", (3, 10, 2))
    assert doctor.python()[0] == "fail"


@pytest.mark.parametrize("error", [InvalidSetting("x\n y"), Unavailable("x\n y"), OSError("x\n y")])
def test_an_error_is_one_line(error: Exception) -> None:
    def check() -> doctor.Result:
        raise error

    assert doctor.finding("name", check) == ("fail", "name", "x y")
