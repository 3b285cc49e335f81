"""The archiver's process: what writes to DATA and needs no model. It archives, and supervises trainings."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

from service.base import tuning
from service.base.errors import ServiceError
from service.processes import event_loop
from service.processes.components import Components
from service.processes.link import RETRY_S, Link, by_socket
from service.processes.messages import Archived, VerifyRedis
from service.settings.settings import Settings
from service.storage.archiver import Archiver

NAME = "archiver"
LOOK_EVERY_S = 0.1  # seconds between two looks at the state of the archiver, which is told when it has changed
STILL_AFTER = 10  # looks after which it is told although it has not
TRIM_AFTER = 50  # looks after which the memory of a merge of segments, tens of MB, is returned to the system
MAX_OPEN = 8  # requests to the engine's process


def run(settings: Settings, path: Path) -> int:
    """Archive and supervise until the parent stops it; the exit status is 1 if a part has failed.

    Args:
        settings: of the service.
        path: socket of the engine's process, which starts Redis and verifies it.
    """
    return event_loop.run(_work(settings, path))


async def _work(settings: Settings, path: Path) -> int:
    stopped = asyncio.Event()
    process = ArchiverProcess(settings, path, event_loop.on_stop(stopped.set, by_parent=True))
    process.start()
    await stopped.wait()
    await process.stop()
    return int(process.failure is not None)


class ArchiverProcess(Components):
    """The parts of the process."""

    def __init__(self, settings: Settings, path: Path, on_failure: Callable[[], None] = lambda: None) -> None:
        """Prepare; nothing is opened yet. See `run` and `Components` for the arguments."""
        super().__init__(settings, on_failure)
        self._link = Link(by_socket(path), NAME, MAX_OPEN, self.metrics.registry)

    def start(self) -> None:
        """Start the parts as soon as the engine's process has verified Redis. Call it on the event loop."""
        self._link.start()
        self._working = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Stop the parts; the archiver commits the stream to the log."""
        self._working.cancel()
        await super().stop()
        await self._link.stop()

    async def _work(self) -> None:
        try:
            self._prepare_data()
            self._open_stream()
            is_verified = False
            while not is_verified:
                try:
                    await self._link.ask(lambda n: VerifyRedis(n, ""))
                    is_verified = True
                except ServiceError:  # the engine's process reports it
                    await asyncio.sleep(RETRY_S)
            archiver = Archiver(self._stream, self._rating_log, self._fail_from_thread)
            self._run_part(archiver)
            if self.settings.worker:
                self._start_supervisor()
            told: Archived | None = None
            for n in itertools.count(1):
                state = Archived(archiver.obstacle, archiver.damage, archiver.lag_s, archiver.n_pending)
                if state != told or not n % STILL_AFTER:
                    self._link.tell(state)
                    told = state
                if not n % TRIM_AFTER:
                    tuning.trim()
                await asyncio.sleep(LOOK_EVERY_S)
        except Exception as error:
            self._fail(error)
