"""Starts `nearfield` by forks of a process that has imported its modules, which takes two seconds of a processor.

The service forks its own processes in the same way. A start in other surroundings, say with other variables than its
settings, is a plain one.
"""

import atexit
import contextlib
import functools
import importlib
import json
import os
import random
import resource
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

MODULES = "service.__main__", "service.processes.process"
MOST_BYTES = 1 << 17  # of a message, and of what a command prints
LONGEST_S = 200.0  # of a command
OURS = "NEARFIELD_", "PYTEST_"  # variables that may differ
AT_IMPORT = "NEARFIELD_FAULT_AT"  # but this one, which a module reads when it is imported
POLL_S = 0.02


class Forked:
    """What tests need of `subprocess.Popen`, for a process that is a child of the server."""

    def __init__(self, pid: int, status: int) -> None:
        """`status`: the end of a pipe into which the server writes the exit status."""
        self.pid, self._status = pid, status
        self.returncode: int | None = None
        os.set_blocking(status, False)

    def poll(self) -> int | None:
        if self.returncode is None:
            with contextlib.suppress(BlockingIOError):
                self.returncode = int(os.read(self._status, 100))
                os.close(self._status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(POLL_S)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # the server has just taken its end, and will tell of it
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process that forks, and ends with this one.

    Its surroundings are those in which this module was imported: it may be started within a test that has others.
    """

    def __init__(self) -> None:
        variables, folder, cores, _ = self.surroundings = AT_FIRST
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.service.fork_server", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=variables, cwd=folder
            )
        os.sched_setaffinity(self._process.pid, cores)

    def start(
        self,
        arguments: list[str],
        environment: dict[str, str],
        stdout: IO[bytes],
        stderr: IO[bytes],
        extras: Sequence[str] | None = None,
    ) -> Forked:
        """Start `nearfield` with `arguments`. `extras`: the names of those that it has; None: all."""
        status, theirs = os.pipe()
        message = json.dumps([arguments, environment, extras]).encode()
        socket.send_fds(self._socket, [message], [stdout.fileno(), stderr.fileno(), theirs])
        os.close(theirs)
        return Forked(int(self._socket.recv(100)), status)

    def close(self) -> None:
        """End the process; those that it has started go on."""
        self._socket.close()
        self._process.wait()


@functools.cache
def server() -> ForkServer:
    """That of this process."""
    made = ForkServer()
    atexit.register(made.close)
    return made


def ran(arguments: Sequence[str], extras: Sequence[str] | None = None, **settings: str) -> tuple[int, str, str]:
    """Run `nearfield` to its end, see `ForkServer.start`: its status, what it prints, and its errors."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        status = server().start(list(arguments), os.environ | settings, output, errors, extras).wait(LONGEST_S)
        printed, told = (os.pread(file.fileno(), MOST_BYTES, 0).decode() for file in (output, errors))
        return status, printed, told


def surroundings(environment: Any) -> tuple[dict[str, str], Path, set[int], list[tuple[int, int]]]:
    """All that a process inherits, but its settings."""
    variables = {name: environment[name] for name in environment if name == AT_IMPORT or not name.startswith(OURS)}
    limits = [resource.getrlimit(kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE)]
    return variables, Path.cwd(), os.sched_getaffinity(0), limits


AT_FIRST = surroundings(os.environ)


def serve(requests: socket.socket) -> None:
    """Fork for each message until the other end is closed; tell the pid at once, and the exit status at the end."""
    statuses: dict[int, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the services too, which end in order
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is requests:
                    message, files, _, _ = socket.recv_fds(requests, MOST_BYTES, 3)
                    if not message:
                        return
                    if not (pid := os.fork()):
                        requests.close()
                        for one in (*statuses.values(), files[2], woken, wake):
                            os.close(one)
                        live(json.loads(message), files[:2])
                    statuses[pid] = files[2]
                    for one in files[:2]:
                        os.close(one)
                    requests.send(str(pid).encode())
                else:
                    os.read(woken, 100)
                    reap(statuses)


def reap(statuses: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            status = statuses.pop(ended[0])
            os.write(status, str(os.waitstatus_to_exitcode(ended[1])).encode())
            os.close(status)


def live(message: list[Any], files: list[int]) -> NoReturn:
    """The whole life of a process that was forked."""
    arguments, environment, extras = message
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for to, one in zip((1, 2), files, strict=True):
        os.dup2(one, to)
        os.close(one)
    os.environ.clear()
    os.environ.update(environment)
    random.seed()
    sys.argv = ["nearfield", *arguments]
    if extras is not None:
        parts = importlib.import_module("service.processes.parts")
        parts.EXTRAS[:] = [one for one in parts.EXTRAS if one.__module__.rpartition(".")[2] in extras]
        parts.parts.cache_clear()
        for name in list(sys.modules):  # the rooms above the extras, which have the commands and messages of all
            if name.startswith(("service.__main__", "service.processes.")) and name != parts.__name__:
                del sys.modules[name]
    importlib.import_module("service.__main__").main()
    raise AssertionError("`main` does not return")


if __name__ == "__main__":
    importlib.import_module("service.base.tuning").configure()
    for name in MODULES:
        importlib.import_module(name)
    importlib.import_module("service.base.imports").for_models()
    with socket.socket(fileno=int(sys.argv[1])) as _requests:
        serve(_requests)
