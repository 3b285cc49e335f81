import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.service import fork_server
from tests.service.process import ForkedService, Service
from tests.service.waiting import eventually


def test_a_fork_has_its_settings_and_says_how_it_ended(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", backend="host", worker=False, max_n=7, log_level="error")
    try:
        assert isinstance(service._process, ForkedService)
        assert service.get("/popular", n=8).status_code == 422
        assert service.stop() == 0
        service.set(max_n=8)
        service.start()
        assert service.get("/popular", n=8).status_code == 200
        assert service.process.poll() is None
        service.process.kill()
        assert service.process.wait(60) == service.process.poll() == -signal.SIGKILL
    finally:
        service.kill()


def test_a_signal_to_a_process_that_has_just_ended_does_nothing() -> None:
    """The server takes its end between a look at its status and the signal."""
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    status, theirs = os.pipe()
    fork_server.Forked(ended.pid, status).kill()
    os.close(status)
    os.close(theirs)


def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"ended with status 2(.|\n)*Invalid max_n"):
        Service(tmp_path / "data", max_n=0)


@pytest.mark.parametrize("name", [fork_server.AT_IMPORT, "NUMBA_CACHE_DIR", "PYTHONPATH"])
def test_variables_of_modules_and_libraries_are_other_surroundings(name: str) -> None:
    ours = fork_server.surroundings(os.environ)
    assert fork_server.surroundings({**os.environ, "NEARFIELD_MAX_N": "7"}) == ours
    assert fork_server.surroundings({**os.environ, name: "other"}) != ours


def test_a_server_that_a_test_starts_in_other_surroundings_has_those_of_all_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all later services of the process would have to do without it."""
    monkeypatch.setenv("OF_ONE_TEST", "1")
    monkeypatch.chdir(tmp_path)
    server = fork_server.ForkServer()
    monkeypatch.undo()
    try:
        assert server.surroundings == fork_server.surroundings(os.environ)
        started = psutil.Process(server._process.pid)
        assert (started.cwd(), "OF_ONE_TEST" in started.environ()) == (str(Path.cwd()), False)
    finally:
        server.close()


def test_other_cores_are_other_surroundings() -> None:
    before, cores = fork_server.surroundings(os.environ), os.sched_getaffinity(0)
    if len(cores) == 1:
        pytest.skip("there is one core")
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert fork_server.surroundings(os.environ) != before
    finally:
        os.sched_setaffinity(0, cores)


def test_a_service_goes_on_when_the_server_ends(tmp_path: Path) -> None:
    """And nobody waits for its status any more: the end of its pipe is closed."""
    server = fork_server.ForkServer()
    log = (tmp_path / "log").open("wb")
    with log:
        arguments = ["serve", "--port", "0", "--data", str(tmp_path / "data")]
        forked = server.start(arguments, os.environ | {"NEARFIELD_WORKER": "false"}, log, log)
    eventually(lambda: b"nearfield is ready on" in (tmp_path / "log").read_bytes())
    server.close()
    os.kill(forked.pid, 0)
    os.kill(forked.pid, signal.SIGTERM)
    eventually(lambda: not Path(f"/proc/{forked.pid}").exists() or is_zombie(forked.pid))


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
