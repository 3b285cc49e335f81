"""The engine's process: history, models, learning and hot swap; it also starts and verifies Redis."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from service import event_loop, tuning
from service.errors import ServiceError
from service.fronts.child import HOPELESS
from service.fronts.endpoint import Endpoint
from service.local_serving import LocalServing
from service.metrics_sum import MetricsSum
from service.runtime import Runtime
from service.settings import Settings
from service.storage.remote_archiver import RemoteArchiver

POLL_S = 0.02  # seconds

_log = structlog.get_logger(__name__)


def run(settings: Settings, path: Path, url: str, n_fronts: int) -> int:
    """Answer the fronts until the parent stops it or until a part fails.

    Args:
        settings: of the service.
        path: of the socket for the fronts.
        url: of the service, for the line that says that it is ready.
        n_fronts: how many fronts must be connected before that line.

    Returns:
        The exit status: 0; 1 if a part has failed; `HOPELESS` if the service cannot start.
    """
    path.unlink(missing_ok=True)  # of an engine that was killed
    return event_loop.run(_serve(settings, path, url, n_fronts))


async def _serve(settings: Settings, path: Path, url: str, n_fronts: int) -> int:
    stopped = asyncio.Event()
    archiver, counts = RemoteArchiver(), MetricsSum()
    runtime = Runtime(settings, archiver)
    runtime.on_failure = event_loop.on_stop(stopped.set, [event_loop.CHILD_STOP])
    endpoint = Endpoint(runtime, LocalServing(runtime, counts), counts, archiver, path)
    try:
        await runtime.start()
    except (ServiceError, OSError) as error:
        _log.critical("the service cannot start", error=str(error))
        return HOPELESS
    await endpoint.start()
    announcing = asyncio.create_task(_announce(runtime, endpoint, url, n_fronts))
    try:
        await stopped.wait()
    finally:
        announcing.cancel()
        await endpoint.stop()
        await runtime.stop()
    return 0 if runtime.failure is None else 1


async def _announce(runtime: Runtime, endpoint: Endpoint, url: str, n_fronts: int) -> None:
    await runtime.until_ready()
    while endpoint.n_connected < n_fronts + 1:  # and the archiver
        await asyncio.sleep(POLL_S)
    tuning.settle()
    fronts = f"{n_fronts} front processes" if n_fronts > 1 else "1 front process"
    print(f"nearfield is ready on {url} ({fronts}, {runtime.summary})", flush=True)  # noqa: T201 (the promised line)
