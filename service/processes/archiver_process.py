"""The archiver's process: what writes to DATA and needs no model. It archives, and supervises trainings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from service.base.errors import ServiceError
from service.processes import event_loop
from service.processes.components import Components
from service.processes.link import RETRY_S, Link
from service.processes.messages import Archived, VerifyRedis
from service.settings.settings import Settings
from service.storage.archiver import Archiver

NAME = "archiver"
TELL_EVERY_S = 0.1  # seconds between two messages about the state of the archiver
MAX_OPEN = 8  # requests to the engine's process

_log = structlog.get_logger(__name__)


def run(settings: Settings, path: Path) -> int:
    """Archive and supervise until the parent stops it; the exit status is 1 if a part has failed.

    Args:
        settings: of the service.
        path: socket of the engine's process, which starts Redis and verifies it.
    """
    return event_loop.run(_work(settings, path))


async def _work(settings: Settings, path: Path) -> int:
    stopped = asyncio.Event()
    parts = _ArchiverProcess(settings, event_loop.on_stop(stopped.set, [event_loop.CHILD_STOP]))
    link = Link(path, NAME, MAX_OPEN, parts.metrics.registry)
    link.start()
    working, stopping = asyncio.create_task(parts.work(link)), asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            _log.critical("the archiver failed", exc_info=working.exception())
    finally:
        failed = working.done() or parts.failure is not None
        working.cancel()
        stopping.cancel()
        await parts.stop()
        await link.stop()
    return int(failed)


class _ArchiverProcess(Components):
    """The parts of the process."""

    async def work(self, link: Link) -> None:
        """Start the parts when the engine's process has verified Redis, then report the state of the archiver."""
        self._prepare_data()
        self._open_stream()
        await _until_verified(link)
        archiver = Archiver(self._stream, self._rating_log, self._fail_from_thread)
        archiver.start()
        self._stop_together(archiver.stop)
        if self.settings.worker:
            self._start_supervisor()
        while True:
            link.tell(Archived(archiver.obstacle, archiver.damage, archiver.lag_s, archiver.n_pending))
            await asyncio.sleep(TELL_EVERY_S)


async def _until_verified(link: Link) -> None:
    while True:
        try:
            await link.ask(VerifyRedis, "")
        except ServiceError:  # the engine's process reports it
            await asyncio.sleep(RETRY_S)
        else:
            return
