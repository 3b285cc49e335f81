import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
from structlog.testing import capture_logs

from service.storage.errors import ServerFailed
from service.storage.streams import redis_server
from service.storage.streams.redis_server import RedisServer, find_binary, runtime_folder
from tests.service.waiting import eventually


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


def connected(server: RedisServer) -> redis.Redis:
    return redis.Redis.from_url(server.url, decode_responses=True)


def test_it_is_durable_private_and_never_evicts(server: RedisServer) -> None:
    with connected(server) as client:
        policy = {**client.config_get("append*"), **client.config_get("maxmemory-policy"), **client.config_get("port")}
    assert (policy["appendonly"], policy["appendfsync"]) == ("yes", "always")
    assert (policy["maxmemory-policy"], policy["port"]) == ("noeviction", "0")
    assert server.socket.parent.stat().st_mode & 0o777 == 0o700


def test_killed_it_comes_back_with_everything_acknowledged(server: RedisServer) -> None:
    first = server.pid
    with connected(server) as client, capture_logs() as logs:
        ids = [client.xadd("s", {"n": str(n)}) for n in range(200)]
        os.kill(first, signal.SIGKILL)
        eventually(lambda: server.is_alive and server.pid != first)
        deaths = [line for line in logs if line["event"] == "redis server died, restarting"]
        assert deaths[0]["free_bytes"] > 0
        assert [found for found, _ in client.xrange("s")] == ids


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_for_a_command_ends_with_it(tmp_path: Path, number: int) -> None:
    code = (
        "import sys, time; from pathlib import Path; from service.storage.streams.redis_server import RedisServer;"
        "server = RedisServer(Path(sys.argv[1]), outlives=False); server.start(); print(server.pid, flush=True);"
        "time.sleep(60)"
    )
    command = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    with command.stdout:
        pid = next(int(line) for line in command.stdout if line.strip().isdecimal())
    assert is_running(pid)
    command.send_signal(number)
    command.wait()
    eventually(lambda: not is_running(pid), 60)
    server = RedisServer(tmp_path)  # its files are whole
    server.start()
    server.stop()


def test_stopping_ends_the_process_and_keeps_the_data(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    pid = server.pid
    with connected(server) as client:
        client.set("kept", "1")
    server.stop()
    assert not is_running(pid)
    assert not server.socket.parent.exists()
    again = RedisServer(tmp_path)
    again.start()
    with connected(again) as client:
        assert client.get("kept") == "1"
    again.stop()


def test_a_server_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CALL_TIMEOUT_S", "STOP_TIMEOUT_S", "TERMINATE_S"):
        monkeypatch.setattr(redis_server, name, 0.05)
    server = RedisServer(tmp_path)
    server._up()
    process = server._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    server.stop()
    assert process.returncode == -signal.SIGKILL
    assert not server.socket.parent.exists()


def test_a_survivor_is_adopted_and_one_with_another_policy_replaced(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from service.storage.streams.redis_server import RedisServer\n"
        "server = RedisServer(pathlib.Path(sys.argv[1])); server.start(); print(server.pid, flush=True); os._exit(9)"
    )
    started = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, check=False, text=True, timeout=60
    )
    pid = int(started.stdout.split()[-1])
    assert is_running(pid)
    adopting = RedisServer(tmp_path)
    adopting.start()
    assert adopting.pid == pid
    adopting._stopping.set()
    adopting._watcher.join()
    weaker = RedisServer(tmp_path, "everysec")
    weaker.start()
    assert weaker.pid != pid
    eventually(lambda: not is_running(pid))
    weaker.stop()


def test_a_survivor_that_loads_its_data_is_waited_for(tmp_path: Path) -> None:
    first = RedisServer(tmp_path)
    first.start()
    with connected(first) as client:
        client.mset({str(n): os.urandom(2048) for n in range(40)})
        client.bgrewriteaof()  # only a file of the form that this writes is read with a delay
        eventually(
            lambda: (
                client.info("persistence")["aof_rewrites"] and not client.info("persistence")["aof_rewrite_in_progress"]
            )
        )
    first.stop()
    slow, adopting = RedisServer(tmp_path), RedisServer(tmp_path)
    slow._policy |= {
        "key-load-delay": "10000",
        "loading-process-events-interval-bytes": "1024",
    }  # µs; it answers between
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(slow._up)
        eventually(slow.socket.exists)
        adopting.start()
        assert adopting.is_alive
        loading.result()
    assert slow._process is not None
    assert adopting.pid == slow._process.pid
    with connected(adopting) as client:
        assert client.dbsize() == 40
    adopting.stop()
    slow._process.wait()


def test_a_survivor_that_hangs_is_waited_for(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_server, "CALL_TIMEOUT_S", 0.1)
    pid, adopting = server.pid, RedisServer(server.folder.parent)
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(adopting._up)
        try:
            with pytest.raises(TimeoutError):
                starting.result(0.5)
        finally:
            os.kill(pid, signal.SIGCONT)
        starting.result()
    monkeypatch.undo()
    assert adopting.pid == pid


def test_a_survivor_that_goes_on_hanging_fails_the_start(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_server, "CALL_TIMEOUT_S", 0.1)
    monkeypatch.setattr(redis_server, "START_TIMEOUT_S", 0.3)
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(ServerFailed, match=r"not ready after 0\.3 s: .*kill it if it hangs"):
            RedisServer(server.folder.parent)._up()
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    assert server.is_alive
    assert server.pid == pid


def test_an_adopted_server_is_watched_too(server: RedisServer) -> None:
    second = RedisServer(server.folder.parent)
    server._stopping.set()
    server._watcher.join()
    second.start()
    first = second.pid
    os.kill(first, signal.SIGKILL)
    eventually(lambda: second.is_alive and second.pid != first)
    second.stop()


def test_an_adopted_server_that_hangs_is_not_taken_for_dead(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_server, "CALL_TIMEOUT_S", 0.1)
    second, pid = RedisServer(server.folder.parent), server.pid
    second._up()
    os.kill(pid, signal.SIGSTOP)
    try:
        assert not second._is_gone()
        assert not second.is_alive
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    assert server.is_alive
    assert second.pid == pid


def test_it_comes_back_although_the_folder_of_its_socket_was_cleared(server: RedisServer) -> None:
    first = server.pid
    shutil.rmtree(server.socket.parent)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: server.is_alive and server.pid != first)


def test_another_server_on_the_socket_is_refused(server: RedisServer, tmp_path: Path) -> None:
    other = RedisServer(tmp_path / "other")
    other.socket = server.socket
    with pytest.raises(ServerFailed, match="expected folder"):
        other.start()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, "sometimes")  # type: ignore[arg-type]
    with pytest.raises(ServerFailed, match="sometimes"):
        server.start()


def test_a_file_that_cannot_be_read_is_named_without_the_story_before(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    with connected(server) as client:
        client.set("kept", "1")
    server.stop()
    (appended,) = (tmp_path / "redis" / "appendonlydir").glob("*.incr.aof")
    appended.write_bytes(b"nonsense" * 20 + appended.read_bytes())
    with pytest.raises(ServerFailed, match=rf"Bad file format .*{appended.name}.*more in .*server\.log") as caught:
        RedisServer(tmp_path).start()
    assert "Redis server ended at start: " in str(caught.value)
    assert "bye" not in str(caught.value)


def test_the_binary_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "redis-server"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == binary
    preferred = tmp_path / "valkey-server"
    binary.rename(preferred)
    assert find_binary() == preferred


def test_a_runtime_folder_open_to_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.storage.streams.redis_server.tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("service.storage.streams.redis_server.os.access", lambda *_: False)
    folder = runtime_folder(tmp_path / "data")
    assert len(os.fsencode(folder)) - len(os.fsencode(tmp_path)) < 50
    folder.chmod(0o755)
    with pytest.raises(ServerFailed, match="0700"):
        runtime_folder(tmp_path / "data")
