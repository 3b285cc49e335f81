"""`Components`: the shared base of `serve` and `worker`, and `Worker`: the parts of `nearfield worker`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

import structlog

from service.base import threads
from service.base.errors import ServiceError
from service.engine import compilation
from service.extras import Part
from service.jobs.jobs import Jobs
from service.jobs.orders import Orders
from service.jobs.supervisor import Supervisor
from service.jobs.table import JobTable
from service.jobs.trainer_process import trainer_alone
from service.processes.parts import parts
from service.settings import data_sets
from service.settings.settings import Settings
from service.storage import audit_log, data_format, files, key_uses, sealed_file, session_folder
from service.storage.archive_lock import ArchivableFormat
from service.storage.archiver import Archiver
from service.storage.log.rating_log import RatingLog
from service.storage.signing_key import KEY_FILE, ROTATE_FILE
from service.storage.snapshots import live_versions
from service.storage.streams.redis_server import url_of
from service.storage.streams.stream import Stream
from service.storage.streams.verification import Loss
from service.telemetry.metrics import Metrics, count_dropped_spans

if TYPE_CHECKING:
    from service.extras.stores.publisher import Publisher

# Names of our files and folders in DATA.
_FOLDERS = "ratings", "redis", "snapshots", "work", "exports", "loading", data_sets.FOLDER
_FOLDERS_OF_KEYS = session_folder.FOLDER, key_uses.FOLDER, audit_log.FOLDER
_LOCKS = ".lock", live_versions.LOCK_FILE, data_format.LOCK_FILE
_FILES = live_versions.LIVE_FILE, live_versions.REPLACED_FILE, data_format.FORMAT_FILE, KEY_FILE, ROTATE_FILE
OURS = frozenset((*sealed_file.all_names(), *_FOLDERS, *_FOLDERS_OF_KEYS, *_LOCKS, *_FILES))
SECRETS = (*sealed_file.NAMES, KEY_FILE)  # files that others must not read
THREADS_STOP_S = 7.0  # seconds; longer than the timeout of a call to Redis
RETRY_S = 2.0  # seconds between two attempts to reach the store at the start of a worker

_log = structlog.get_logger(__name__)


class Components:
    """The base of `serve` and `worker`: the list of parts to stop, and the first failure.

    Attributes:
        serves: whether models answer in this process, or in one that belongs to it.
        threads_to_stop: stop a thread each, all at once, because each may wait for Redis, the disk or the engine.
        to_stop: what closes the parts without a thread, in reverse order, when all threads have ended.
    """

    serves = True

    def __init__(self, settings: Settings, on_failure: Callable[[], None] = lambda: None) -> None:
        """Prepare; nothing is opened yet.

        Args:
            settings: settings of the process.
            on_failure: called on the event loop when a part has failed for good; `failure` has the error.
        """
        self.settings, self.metrics = settings, Metrics()
        count_dropped_spans(self.metrics)
        self.failure: BaseException | None = None
        self.on_failure = on_failure
        self.threads_to_stop: list[Callable[[], None]] = []
        self.to_stop = contextlib.AsyncExitStack()
        self._rating_log = RatingLog(settings.data / "ratings")
        self._check_format = ArchivableFormat(self._rating_log.folder).check

    async def stop(self) -> None:
        """Stop all threads at once, then all other parts in reverse order of their start.

        Each part has a timeout. A part that does not stop in time ends with the process, without loss: acknowledged
        ratings are durable.
        """
        await asyncio.gather(*(in_thread(stop, THREADS_STOP_S) for stop in self.threads_to_stop))
        await self.to_stop.aclose()

    def _fail(self, error: BaseException) -> None:
        """Note that a part has failed for good: the process should end, and the next one resumes from durable state."""
        self.failure = self.failure or error
        _log.critical("service failed", error=str(error), kind=type(error).__name__)
        self.on_failure()

    def _fail_from_thread(self, error: BaseException) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends anyway
            self._loop.call_soon_threadsafe(self._fail, error)

    def _prepare_data(self) -> None:
        """Prepare DATA before any part opens it. Call it on the event loop. Raises what `data_format.enter` raises."""
        self._loop = asyncio.get_running_loop()
        for path in files.open_to_others(self.settings.data, SECRETS):
            _log.warning(
                "others could read a file of secrets, which the service closes if it may; if they have done so, replace"
                " what is in it: docs/operations.md says how",
                file=str(path),
            )
        files.close_to_others(self.settings.data, OURS.union(parts().names))
        data_format.enter(self.settings.data)

    def _run_part(self, part: Part) -> None:
        """Start a part with a thread, which ends with all others."""
        part.start()
        self.threads_to_stop.append(part.stop)

    def _open_stream(self) -> None:
        url, keys, log = url_of(self.settings), self.settings.keyspace, self._rating_log
        follows = self.serves and self.settings.store is not None
        loss = Loss.NONE if self.settings.redis is None else Loss.WORKER if follows else Loss.PROCESSES
        self._stream = Stream(url, log.last_id, self.settings.appendfsync, log.known, keys, loss)
        self.to_stop.callback(self._stream.close)
        self._table = JobTable(url, keys)
        self.to_stop.callback(self._table.close)

    def _start_supervisor(self, settle: Callable[[], None] = lambda: None) -> None:
        """Start what supervises jobs, and what extras run beside it; `settle`: see `Supervisor`."""
        supervisor = Supervisor(
            self.settings,
            self._table,
            self._stream,
            self._rating_log,
            self.metrics,
            self._fail_from_thread,
            settle,
            serves=self.serves,
            trainer=parts().trainer or trainer_alone,
        )
        self._run_part(supervisor)
        jobs = Jobs(self._table, self._stream, self.settings.data)
        if self.settings.schedules:
            schedule = parts().schedule
            assert schedule is not None  # noqa: S101 (`service.processes.process` has refused the setting)
            self._run_part(schedule(self.settings, jobs, self._fail_from_thread))
        for make in parts().companions:
            self._run_part(make(self.settings, jobs, self.metrics, self._fail_from_thread))


class Worker(Components):
    """`nearfield worker`: runs jobs for a service that shares DATA and Redis, or follows the store of this process.

    With a store it archives, too, and publishes DATA.
    """

    serves = False
    _preparing: asyncio.Task[None] | None = None

    async def start(self, *, take_over: bool = False) -> None:
        """Start to take jobs; Redis and store may start later.

        Args:
            take_over: see `Publisher.prepare`.

        Raises:
            DataInUse: there is a store, and another process holds DATA.
        """
        self._prepare_data()
        compilation.check_cache()
        if self.settings.store is not None:
            self.to_stop.callback(files.DataLock(self.settings.data).release)
        self._open_stream()
        if self.settings.store is None:
            self._start_supervisor()
        else:
            publish = parts().publish
            assert publish is not None  # noqa: S101 (`service.processes.process` has refused the setting)
            publisher = publish(self.settings, self._stream, self._rating_log, self._fail_from_thread)
            self._preparing = asyncio.create_task(self._publish(publisher, take_over=take_over))

    async def stop(self) -> None:
        """See `Components.stop`."""
        if self._preparing is not None:
            self._preparing.cancel()
        await super().stop()

    async def _publish(self, publisher: Publisher, *, take_over: bool) -> None:
        """Start to archive, publish and take jobs when DATA has all that the store has."""
        reported = ""
        while True:
            try:
                await asyncio.to_thread(publisher.prepare, take_over=take_over)
                break
            except (ServiceError, OSError) as error:
                if str(error) != reported:
                    _log.error("the worker waits: it cannot publish", error=str(error))
                reported = str(error)
                await asyncio.sleep(RETRY_S)
        archiver = Archiver(self._stream, self._rating_log, self._fail_from_thread, publisher)
        self._run_part(archiver)
        self._run_part(publisher)
        self._run_part(Orders(self._table, self.settings.data, self._fail_from_thread))
        self._start_supervisor(publisher.settle)
        _log.info("the worker publishes its folder", store=publisher.url)


async def in_thread(stop: Callable[[], None], timeout_s: float) -> None:
    """Call `stop` in a new thread, because asyncio's threads may all be waiting for Redis."""
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            stop()
            outcome.set_result(None)
        except BaseException as error:
            outcome.set_exception(error)

    threads.helper("stop", run)
    waiting = asyncio.wrap_future(outcome)
    done, _ = await asyncio.wait({waiting}, timeout=timeout_s)
    if done:
        waiting.result()
    else:
        _log.error("a part does not stop", part=getattr(stop, "__qualname__", ""), after_s=timeout_s)
