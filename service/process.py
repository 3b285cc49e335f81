"""`nearfield serve` and `nearfield worker`: a process from its first line to its exit status."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import structlog
import uvicorn
import uvloop

from service import logs, threads, tuning
from service.api.app import Application, create_app
from service.components import Components, Worker
from service.errors import InvalidSetting
from service.runtime import Runtime
from service.settings import Settings

BACKLOG = 2048
GRACE_S = 5  # for requests in flight when the process is told to stop: none waits longer for Redis
STOP_S = 20  # after which the process ends whatever still hangs; Docker and Kubernetes kill it after 10 to 30 s
KEEP_ALIVE_S = 30
SPARE_FILES = 640  # in addition to `max_connections`: 320 that are for health or over; logs, snapshots, kernels, Redis
MIN_CONNECTIONS = 64  # for which there must be files, unless `max_connections` is lower
SWITCH_INTERVAL_S = 0.0005  # of threads that wait for the lock: with more, on several cores, reads wait longer
PRIVATE = 0o077  # of every file that this process and its children write: nobody else reads or locks it
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_log = structlog.get_logger(__name__)


class _Server(uvicorn.Server):
    """uvicorn's server, stopped by us: it would raise the signal again and end the process by it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; the exit status is 0 then, 1 if a part of the service failed.

    Raises:
        InvalidSetting: others can reach the address, and there are no keys; or the process may open too few files.
        DataInUse: another process holds the data folder.
        OSError: the address cannot be listened on.
    """
    settings.check_exposure()
    os.umask(PRIVATE)
    logs.configure(settings.log_level, settings.log_format)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    settings = _within_files(settings)
    tuning.limit_arenas()
    tuning.limit_blas()
    app = create_app(settings)
    with _listening(settings) as listener:
        return _ended(_in_loop(_serve(app.state.runtime, _server(app), listener)))


def _within_files(settings: Settings) -> Settings:
    """Settings with no more connections than the process can open files; the soft limit is raised as needed.

    Raises:
        InvalidSetting: the hard limit leaves fewer than `MIN_CONNECTIONS`, and fewer than were asked for.
    """
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + SPARE_FILES
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        _check_files(allowed, min(settings.max_connections, MIN_CONNECTIONS) + SPARE_FILES)
        _log.warning(
            "fewer connections than max_connections: the limit of open files is too low",
            open_files=allowed,
            connections=allowed - SPARE_FILES,
            max_connections=settings.max_connections,
        )
        wanted = allowed
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, allowed))
    return settings.model_copy(update={"max_connections": wanted - SPARE_FILES})


def _check_files(allowed: int, least: int) -> None:
    if allowed < least:
        raise InvalidSetting(
            f"Invalid limit of open files: expected {least} or more, got {allowed}; raise it (ulimit -n 65536,"
            " LimitNOFILE= of systemd, --ulimit nofile=65536 of docker)"
        )


def run_worker(settings: Settings) -> int:
    """Supervise trainings until SIGTERM or SIGINT; exit status as for `run`."""
    os.umask(PRIVATE)
    logs.configure(settings.log_level, settings.log_format)
    tuning.prefer_as_victim(tuning.WORKER_OOM_SCORE)
    return _ended(_in_loop(_work(settings)))


def _ended(status: int) -> int:
    """The exit status; where a part still hangs this ends the process, since Python would wait for it."""
    if left := threads.left():
        _log.error("the process ends without parts that hang", parts=left)
        sys.stdout.flush()
        os._exit(status)
    return status


def _in_loop(main: Coroutine[Any, Any, int]) -> int:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def _server(app: Application) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", app.connection),  # it is called with what a class would be
            ws="none",
            proxy_headers=False,  # whom a proxy may name is decided by `ClientAddresses`
            lifespan="off",  # the runtime is started below, so that its errors are ours to tell
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
    )


async def _serve(runtime: Runtime, server: _Server, listener: socket.socket) -> int:
    """Start the parts, answer requests until told to stop or a part fails, stop the parts."""

    def stop() -> None:
        if not server.should_exit:
            _end_in_time()
        server.should_exit = True

    _on_signals(stop)
    runtime.on_failure = stop
    await runtime.start()
    host, port = listener.getsockname()[:2]
    announcing = asyncio.create_task(_announce(runtime, f"http://{f'[{host}]' if ':' in host else host}:{port}"))
    try:
        await server.serve([listener])
    finally:
        announcing.cancel()
        await runtime.stop()
    return _status(runtime)


async def _work(settings: Settings) -> int:
    stopped = asyncio.Event()

    def stop() -> None:
        if not stopped.is_set():
            _end_in_time()
        stopped.set()

    _on_signals(stop)
    worker = Worker(settings, stop)
    await worker.start()
    print("nearfield worker is ready", flush=True)  # noqa: T201 (the promised line)
    try:
        await stopped.wait()
    finally:
        await worker.stop()
    return _status(worker)


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)


def _end_in_time() -> None:
    """End the process after `STOP_S`, whatever hangs: a thread of C, which needs nothing of Python, sees to it.

    It writes where each thread hangs to stderr; the exit status is 1.
    """
    faulthandler.dump_traceback_later(STOP_S, exit=True)


def _status(parts: Components) -> int:
    return 0 if parts.failure is None else 1


async def _announce(runtime: Runtime, url: str) -> None:
    await runtime.until_ready()
    tuning.settle()
    print(f"nearfield is ready on {url} ({runtime.summary})", flush=True)  # noqa: T201 (the promised line)


@contextlib.contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG) as listener:
        listener.setblocking(False)
        yield listener
