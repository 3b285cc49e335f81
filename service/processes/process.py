"""`nearfield serve` and `nearfield worker`: set up the process, run it, and return the exit status.

`serve` is one process, or a parent with front processes and an engine process (`service.processes`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence

from service.api.app import application
from service.base import imports, tuning
from service.processes import event_loop, http_server, parent
from service.processes.components import Components, Worker
from service.processes.http_server import Server, listening, url_of
from service.processes.local_serving import LocalServing
from service.processes.parts import check_extras, parts
from service.processes.runtime import Runtime
from service.settings.settings import Settings
from service.storage.errors import CorruptLiveFile
from service.storage.snapshots import live_versions
from service.telemetry import logs, traces

SWITCH_INTERVAL_S = 0.0005  # seconds until a waiting thread asks for the GIL; a longer interval delays reads
PRIVATE = 0o077  # umask: no other user can read or lock files of this process and its children


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT. The exit status is 0, or 1 if a part of the service failed.

    Raises:
        InvalidSetting: other machines can reach the address and no keys are set; or the process may open too few files;
            or a data set has a setting that cannot be used; or `default_models` names none of its models; or traces
            are on and cannot be sent; or a store is set and cannot be followed.
        DataInUse: another process holds the data folder.
        ClusterUnavailable: the cluster in the settings needs a package that is not installed.
        OSError: the process cannot listen on the address.
    """
    settings.check_exposure()
    check_extras(settings)
    for check in parts().check_serve:
        check(settings)
    os.umask(PRIVATE)
    logs.configure(settings.log_level, settings.log_format)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    settings = http_server.within_files(settings)
    tuning.limit_arenas()
    tuning.limit_blas()
    imports.for_models()
    n_fronts = parent.n_fronts(settings)
    data_sets = settings.each()
    with contextlib.suppress(CorruptLiveFile):  # the parts that need the file report it
        for one in data_sets:
            live_versions.check_defaults([each.data for each in data_sets], one.default_models)
    with listening(settings) as listener:
        if n_fronts:
            return parent.run(settings, listener, n_fronts)
        with traces.running(settings, "api", parts().span_export):
            runtime = Runtime(settings)
            return event_loop.run(
                _serve(runtime, Server(application(LocalServing(runtime), extras=parts().routes)), listener)
            )


def run_worker(settings: Settings, *, take_over: bool = False) -> int:
    """Supervise the trainings of all data sets until SIGTERM or SIGINT; exit status as for `run`.

    Args:
        settings: of the worker.
        take_over: see `Publisher.prepare`; needs a store.

    Raises:
        InvalidSetting, ClusterUnavailable: the cluster, traces, the store, or a setting of a data set cannot be used.
        DataInUse: there is a store, and another process holds the data folder.
    """
    check_extras(settings)
    for check in parts().check_worker:
        check(settings)
    os.umask(PRIVATE)
    logs.configure(settings.log_level, settings.log_format)
    tuning.prefer_as_victim(tuning.WORKER_OOM_SCORE)
    imports.for_files()
    with traces.running(settings, "worker", parts().span_export):
        return event_loop.run(_work(settings.each(), take_over))


async def _serve(runtime: Runtime, server: Server, listener: socket.socket) -> int:
    """Start the parts, answer requests until a signal or until a part fails, and stop the parts."""

    def stop() -> None:
        server.should_exit = True

    runtime.on_failure = event_loop.on_stop(stop)
    await runtime.start()
    announcing = asyncio.create_task(_announce(runtime, url_of(listener)))
    try:
        await server.serve([listener])
    finally:
        announcing.cancel()
        await runtime.stop()
    return _status(runtime)


async def _work(data_sets: Sequence[Settings], take_over: bool) -> int:
    stopped = asyncio.Event()
    stop = event_loop.on_stop(stopped.set)
    workers = [Worker(settings, stop) for settings in data_sets]
    for worker in workers:
        await worker.start(take_over=take_over)
    print("nearfield worker is ready", flush=True)  # noqa: T201 (the promised line)
    try:
        await stopped.wait()
    finally:
        await asyncio.gather(*(worker.stop() for worker in workers))
    return _status(*workers)


def _status(*parts: Components) -> int:
    return 0 if all(one.failure is None for one in parts) else 1


async def _announce(runtime: Runtime, url: str) -> None:
    await runtime.until_ready()
    tuning.settle()
    print(f"nearfield is ready on {url} ({runtime.summary})", flush=True)  # noqa: T201 (the promised line)
