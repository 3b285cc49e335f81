"""`nearfield serve` and `nearfield worker`: set up the process, run it, and return the exit status."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence

from service.base import imports, tuning
from service.processes import event_loop, http_server, parent
from service.processes.certificate import Certificate
from service.processes.components import Worker
from service.processes.http_server import listening
from service.processes.parts import check_extras, parts
from service.settings.settings import Settings
from service.storage import data_format
from service.storage.errors import CorruptLiveFile
from service.storage.snapshots import live_versions
from service.telemetry import logs, traces

SWITCH_INTERVAL_S = 0.0005  # seconds until a waiting thread asks for the GIL; a longer interval delays reads
PRIVATE = 0o077  # umask: no other user can read or lock files of this process and its children


def check_start(settings: Settings) -> None:
    """Check what a service refuses before it opens anything. Raises what `run` raises, save OSError."""
    settings.check_exposure()
    data_format.check(settings.data)
    check_extras(settings)
    Certificate.of(settings)
    for check in parts().check_serve:
        check(settings)


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT. The exit status is 0, or 1 if a part of the service failed.

    Raises:
        InvalidSetting: other machines can reach the address and no keys are set; or the process may open too few files;
            or a data set has a setting that cannot be used; or `default_models` names none of its models; or traces
            are on and cannot be sent; or a store is set and cannot be followed.
        NewerData: a newer version wrote the data folder.
        ClusterUnavailable: the cluster in the settings needs a package that is not installed.
        OSError: the process cannot listen on the address.
    """
    check_start(settings)
    os.umask(PRIVATE)
    logs.configure(settings.log_level, settings.log_format)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    settings = http_server.within_files(settings)
    tuning.limit_arenas()
    tuning.limit_blas()
    imports.for_models()
    data_sets = settings.each()
    with contextlib.suppress(CorruptLiveFile):  # the parts that need the file report it
        for one in data_sets:
            live_versions.check_defaults([each.data for each in data_sets], one.default_models)
    with listening(settings) as listener:
        return parent.run(settings, listener)


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
    with traces.running(settings.trace_variables(), "worker", parts().span_export):
        return event_loop.run(_work(settings.each(), take_over))


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
    return int(any(worker.failure is not None for worker in workers))
