"""The engine's process of a data set: history, models, learning and hot swap. That of the default one starts Redis."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import structlog
from prometheus_client import CollectorRegistry

from gpu.base.errors import EngineError
from service.api.operations import GetReadiness
from service.base import tuning
from service.base.errors import ServiceError
from service.processes import event_loop
from service.processes.child import NOT_STARTED
from service.processes.endpoint import Endpoint
from service.processes.front_process import Front
from service.processes.link import Connect, Link, by_socket
from service.processes.messages import Request
from service.processes.runtime import Runtime
from service.settings.settings import Settings
from service.storage.errors import ServerFailed, VolatileServer

POLL_S = 0.02  # seconds
FAILURE_SHOWN_S = 30.0  # seconds for which a data set says why it has failed, before it starts again
DEFAULT_SHOWN_S = 300.0  # the same for the default one, whose end also stops Redis for a second or two
OF_ALL = ServerFailed, VolatileServer  # failures of what all data sets share
FURTHER_READY_S = 120.0  # seconds that further data sets get to become ready after the default one, before the line

NOT_READY = " NOT READY"

_log = structlog.get_logger(__name__)


class Announcement(NamedTuple):
    """What the line is about that says that the service is ready.

    Attributes:
        url: of the service.
        n_fronts: how many fronts must be connected before that line.
        further: sockets of the engines of further data sets, by the names of these.
    """

    url: str
    n_fronts: int
    further: Mapping[str, Path]


def run(
    settings: Settings, path: Path, announcement: Announcement, make_front: Callable[[Connect], Front] | None = None
) -> int:
    """Answer the fronts until the parent stops it or until a part fails.

    Args:
        settings: of the data set.
        path: of the socket for the fronts.
        announcement: the engine of the default data set makes it.
        make_front: makes the only front, if it shall be in this process.

    Returns:
        The exit status: 0; 1 if a part has failed; `NOT_STARTED` if that was before the service was ready, and no other
        data set can go on.
    """
    path.unlink(missing_ok=True)  # of an engine that was killed
    return event_loop.run(_serve(settings, path, announcement, make_front))


async def _serve(
    settings: Settings, path: Path, announcement: Announcement, make_front: Callable[[Connect], Front] | None
) -> int:
    stopped, runtime = asyncio.Event(), Runtime(settings)
    stop = event_loop.on_stop(stopped.set, by_parent=True)
    runtime.on_failure = lambda: _stop_failed(runtime, stop)
    endpoint = Endpoint(runtime, path)
    front = None if make_front is None else make_front(endpoint.connect)  # imports its modules before there are threads
    try:
        await runtime.start()
    except Exception as error:
        is_foreseen = isinstance(error, EngineError | ServiceError | OSError)
        _log.critical("the service cannot start", error=str(error), exc_info=None if is_foreseen else error)
        return NOT_STARTED
    await endpoint.start()
    serving = None
    if front is not None:
        asyncio.get_running_loop().add_signal_handler(event_loop.CHILD_LEAVE, front.stop)
        serving = asyncio.create_task(front.serve())
    announcing = asyncio.create_task(_announce(runtime, endpoint, announcement))
    announcing.add_done_callback(functools.partial(_stop_unannounced, stop))
    try:
        await stopped.wait()
    finally:
        is_unannounced = announcing.done() and announcing.exception() is not None
        was_ready = announcing.done() and not is_unannounced
        announcing.cancel()
        if front is not None and serving is not None:
            front.stop()
            await serving
        await endpoint.stop()
        if was_ready:
            await runtime.archive_rest()
        await runtime.stop()
    if runtime.failure is None:
        return NOT_STARTED if is_unannounced else 0
    return 1 if was_ready or _is_own(runtime) else NOT_STARTED


def _is_own(runtime: Runtime) -> bool:
    """Whether the failure is of one data set among several, so that the others go on."""
    return bool(runtime.settings.data_sets) and not isinstance(runtime.failure, OF_ALL)


def _stop_failed(runtime: Runtime, stop: Callable[[], None]) -> None:
    """Stop; after a while, if the other data sets go on, so that this one can say why it has failed."""
    shown_s = FAILURE_SHOWN_S if runtime.settings.data_set else DEFAULT_SHOWN_S
    asyncio.get_running_loop().call_later(shown_s if _is_own(runtime) else 0.0, stop)


def _stop_unannounced(stop: Callable[[], None], announcing: asyncio.Task[None]) -> None:
    """Stop if the line could not be printed: a script that waits for it would wait for ever."""
    error = None if announcing.cancelled() else announcing.exception()
    if error is not None:
        _log.critical("the service cannot say that it is ready", exc_info=error)
        stop()


async def _announce(runtime: Runtime, endpoint: Endpoint, announcement: Announcement) -> None:
    """Print the line, after all data sets; of a further one, only prepare the process for its work."""
    while not (runtime.readiness.ready or runtime.failure):
        await asyncio.sleep(POLL_S)
    while endpoint.n_connected < announcement.n_fronts + (runtime.settings.store is None):  # and the archiver
        await asyncio.sleep(POLL_S)
    await endpoint.ready()
    tuning.settle()
    if runtime.settings.data_set or (runtime.failure and not _is_own(runtime)):
        return
    n_fronts, further = announcement.n_fronts, announcement.further
    are_ready = await asyncio.gather(*map(_is_ready, further.values()))
    sets = [f"data set {name}{'' if ready else NOT_READY}" for name, ready in zip(further, are_ready, strict=True)]
    facts = [f"{n_fronts} fronts" if n_fronts > 1 else "1 front", *sets, runtime.summary]
    facts += [f"default data set{NOT_READY}"] if runtime.failure else []
    print(f"nearfield is ready on {announcement.url} ({', '.join(facts)})", flush=True)  # noqa: T201 (the promised line)


async def _is_ready(path: Path) -> bool:
    """Wait until the engine behind this socket is ready, has failed or has taken too long; whether it is ready."""
    link = Link(by_socket(path), "engine", 1, CollectorRegistry())
    link.start()
    try:
        async with asyncio.timeout(FURTHER_READY_S):
            while not link.has_failed:
                try:
                    await link.ask(lambda n: Request(n, GetReadiness(), "", None, ""))
                except ServiceError:
                    await asyncio.sleep(POLL_S)
                else:
                    return True
    except TimeoutError:
        pass
    finally:
        await link.stop()
    return False
