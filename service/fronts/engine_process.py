"""The engine's process: history, models, learning and hot swap; it also starts and verifies Redis."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from service import event_loop, tuning
from service.errors import ServiceError
from service.fronts.child import NOT_STARTED
from service.fronts.endpoint import Endpoint
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
        The exit status: 0; 1 if a part has failed; `NOT_STARTED` if that was before the service was ready.
    """
    path.unlink(missing_ok=True)  # of an engine that was killed
    return event_loop.run(_serve(settings, path, url, n_fronts))


async def _serve(settings: Settings, path: Path, url: str, n_fronts: int) -> int:
    stopped, archiver = asyncio.Event(), RemoteArchiver()
    runtime = Runtime(settings, archiver)
    runtime.on_failure = event_loop.on_stop(stopped.set, [event_loop.CHILD_STOP])
    try:
        await runtime.start()
    except Exception as error:
        is_foreseen = isinstance(error, ServiceError | OSError)
        _log.critical("the service cannot start", error=str(error), exc_info=None if is_foreseen else error)
        return NOT_STARTED
    endpoint = Endpoint(runtime, archiver, path)
    await endpoint.start()
    announcing = asyncio.create_task(_announce(runtime, endpoint, url, n_fronts))
    try:
        await stopped.wait()
    finally:
        was_ready = announcing.done()
        announcing.cancel()
        await endpoint.stop()
        await runtime.stop()
    if runtime.failure is None:
        return 0
    return 1 if was_ready else NOT_STARTED


async def _announce(runtime: Runtime, endpoint: Endpoint, url: str, n_fronts: int) -> None:
    await runtime.until_ready()
    while endpoint.n_connected < n_fronts + 1:  # and the archiver
        await asyncio.sleep(POLL_S)
    await endpoint.ready()
    tuning.settle()
    fronts = f"{n_fronts} front processes" if n_fronts > 1 else "1 front process"
    print(f"nearfield is ready on {url} ({fronts}, {runtime.summary})", flush=True)  # noqa: T201 (the promised line)
