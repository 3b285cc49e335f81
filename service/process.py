"""`nearfield serve` and `nearfield worker`: set up the process, run it, and return the exit status."""

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
from service.api.app import Application, application
from service.components import Components, Worker
from service.errors import InvalidSetting
from service.jobs import cluster
from service.local_serving import LocalServing
from service.runtime import Runtime
from service.settings import Settings

BACKLOG = 2048  # connections that the kernel may queue
GRACE_S = 5  # seconds for requests in flight at a stop: none waits longer for Redis
STOP_S = 20  # seconds from the stop signal to a forced end; Docker and Kubernetes kill after 10 to 30 s
KEEP_ALIVE_S = 30  # seconds
SPARE_FILES = 640  # open files beyond `max_connections`: 320 health or refused connections, logs, kernels, Redis
MIN_CONNECTIONS = 64  # connections for which the file limit must suffice, unless `max_connections` is lower
SWITCH_INTERVAL_S = 0.0005  # seconds until a waiting thread asks for the GIL; a longer interval delays reads
PRIVATE = 0o077  # umask: no other user can read or lock files of this process and its children
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_log = structlog.get_logger(__name__)


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers, which would raise the signal again and end the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT. The exit status is 0, or 1 if a part of the service failed.

    Raises:
        InvalidSetting: other machines can reach the address and no keys are set; or the process may open too few files.
        DataInUse: another process holds the data folder.
        ClusterUnavailable: the cluster in the settings needs a package that is not installed.
        OSError: the process cannot listen on the address.
    """
    settings.check_exposure()
    if settings.worker:
        cluster.check(settings)
    os.umask(PRIVATE)
    logs.configure(settings.log_level, settings.log_format)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    settings = _within_files(settings)
    tuning.limit_arenas()
    tuning.limit_blas()
    runtime = Runtime(settings)
    with _listening(settings) as listener:
        return _ended(_in_loop(_serve(runtime, _server(application(LocalServing(runtime))), listener)))


def _within_files(settings: Settings) -> Settings:
    """Settings with `max_connections` lowered to the limit of open files; raises the soft limit if needed.

    Raises:
        InvalidSetting: the hard limit leaves fewer than `MIN_CONNECTIONS` and fewer than `max_connections`.
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
    """Supervise trainings until SIGTERM or SIGINT; exit status as for `run`.

    Raises:
        InvalidSetting, ClusterUnavailable: the cluster in the settings cannot be used.
    """
    cluster.check(settings)
    os.umask(PRIVATE)
    logs.configure(settings.log_level, settings.log_format)
    tuning.prefer_as_victim(tuning.WORKER_OOM_SCORE)
    return _ended(_in_loop(_work(settings)))


def _ended(status: int) -> int:
    """Return the exit status; if a part still hangs, end the process, because Python would wait for its thread."""
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
            http=cast("type[asyncio.Protocol]", app.connection),  # uvicorn calls it like a protocol class
            ws="none",
            proxy_headers=False,  # `ClientAddresses` does this
            lifespan="off",  # `_serve` starts the runtime, so that we report its errors
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
    )


async def _serve(runtime: Runtime, server: _Server, listener: socket.socket) -> int:
    """Start the parts, answer requests until a signal or until a part fails, and stop the parts."""

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
    """End the process after `STOP_S` even if a thread hangs, by a C thread that does not need the GIL.

    It writes the stack of each thread to stderr; the exit status is 1.
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
