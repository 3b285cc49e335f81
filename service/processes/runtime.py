"""`Runtime`: wires, starts and stops all parts of the engine's process. Independent of HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import structlog

from gpu.base import backend
from service.base.errors import NotReady, ServiceError, Unavailable
from service.base.threads import BlockingCalls
from service.engine.engine import Engine
from service.engine.fairness import Portion
from service.engine.learner import Learner
from service.engine.model_swap import HotSwap
from service.engine.new_ids import NewIds
from service.engine.pending_queries import Limits, Promise
from service.engine.queries import Query
from service.engine.quotas import Quotas
from service.engine.readiness import Readiness
from service.engine.state.history import History
from service.engine.statistics import Statistics, watch, watch_archiver, watch_device, watch_quotas
from service.jobs.jobs import Jobs
from service.processes.components import THREADS_STOP_S, Components, in_thread
from service.processes.parts import parts
from service.processes.writes import Writes
from service.settings.half_lives import parse_half_lives
from service.settings.settings import Settings
from service.storage import signing_key
from service.storage.archive import Archive, ReportedArchive
from service.storage.archiver import Archiver
from service.storage.errors import CorruptLiveFile, LockTimeout, LogUnavailable, VolatileServer
from service.storage.events import StreamId
from service.storage.files import DataLock
from service.storage.snapshots import live_versions
from service.storage.streams.catching_up import archive_up_to
from service.storage.streams.redis_server import RedisServer

RETRY_S = 0.5  # seconds between attempts to verify Redis at the start
CHECK_REDIS_EVERY_S = 1.0  # seconds
MEASURE_EVERY_S = 5.0  # seconds between two looks at the memory, disk and minutes of trainings that quotas bound
REDIS = "redis"
BOOT_STOP_S = 6.0  # seconds for an unfinished start when the process stops: longer than the timeout of a call to Redis
SERVER_STOP_S = 5.0  # seconds, at most, for the server to end

_Value = TypeVar("_Value")
_log = structlog.get_logger(__name__)


class Runtime(Components):
    """The parts of the engine's process: they answer and learn.

    Attributes:
        reports: takes what the archiver's process reports.
        jobs, hotswap, new_ids, quotas, statistics, traces, writes: see their classes; set by `start`.
        calls, guards: what performs operations, and within what; a guard may refuse. `Performer` and extras add theirs.
    """

    jobs: Jobs
    hotswap: HotSwap
    new_ids: NewIds
    quotas: Quotas
    statistics: Statistics
    writes: Writes

    def __init__(self, settings: Settings, on_failure: Callable[[], None] = lambda: None) -> None:
        """Prepare; nothing is opened yet. See `Components` for the arguments."""
        super().__init__(settings, on_failure)
        self.reports = ReportedArchive()
        self.calls: dict[type, Callable[[Any], Awaitable[Any]]] = {}
        self.guards: dict[type, Callable[[Any], AbstractAsyncContextManager[Any]]] = {}

    async def start(self) -> None:
        """Lock the data folder and start all parts; `readiness` says when they can answer.

        Raises:
            DataInUse: another process holds the data folder for its embedded Redis.
        """
        settings = self.settings
        self._prepare_data()
        server = None
        if settings.store or (settings.redis is None and not settings.data_set):  # else replicas may share the folder
            self.to_stop.callback(DataLock(settings.data).release)
        if settings.redis is None and not settings.data_set:
            server = RedisServer(settings.data, settings.appendfsync, self._fail_from_thread)
            self.to_stop.push_async_callback(in_thread, server.stop, SERVER_STOP_S)  # threads need it to their end
        self._server = server
        self._blocking = BlockingCalls(settings.max_waiting)
        self.to_stop.callback(self._blocking.close)
        self._open_stream()
        self._is_started = self._is_stopping = False
        self._watching: asyncio.Task[None] | None = None
        self._start_engine()
        self._booting = asyncio.create_task(self._boot(server))

    async def stop(self) -> None:
        """Stop all parts in reverse order."""
        self._is_stopping = True
        if self._server is not None:
            self._server.give_up()
        await asyncio.wait({self._booting}, timeout=BOOT_STOP_S)  # it may be starting the server, which must stop too
        self._measuring.cancel()
        if self._watching is not None:
            self._watching.cancel()
        await super().stop()

    # --- for the endpoint

    @property
    def readiness(self) -> Readiness:
        """Whether all parts work, and if not, why."""
        readiness = self._failed or self._engine.readiness
        obstacle, damage = self._archive.obstacle, self._archive.damage
        if not readiness.ready or (obstacle is None and damage is None):
            return readiness
        reason = f"is damaged: {damage}" if obstacle is None else f"cannot be written: {obstacle}"
        return Readiness(False, f"the rating log {reason}", readiness.fraction)

    @property
    def _failed(self) -> Readiness | None:
        return None if self.failure is None else Readiness(False, str(self.failure), 0.0)

    @property
    def as_of(self) -> StreamId:
        """The last entry that all answers include."""
        return self._engine.as_of

    @property
    def summary(self) -> str:
        """Backend and data folder in one line."""
        backend = self._engine.backend
        return f"{backend.name} backend: {backend.reason}; data in {self.settings.data}"

    async def ask(self, query: Any, wait_for: StreamId | None = None) -> Any:
        """The engine's answer after it has learned `wait_for`. Raises what `Engine.ask` and `wait_for` raise.

        The query is a `Query`, or one that an extra has added to `Engine.answer_to`.
        """
        await self.wait_for(wait_for)
        return await self.ask_now(query)

    def ask_now(self, query: Query) -> asyncio.Future[Any]:
        """A future for the engine's answer.

        Raises:
            NotReady: the service is starting. Further errors: see `Engine.ask`.
        """
        self._check_started()
        return self._engine.ask(query)

    def ask_for(self, query: Query, portions: Sequence[Portion], promise: Promise) -> None:
        """Like `ask_now`, for clients of a front process: `promise` gets the answer."""
        self._check_started()
        self._engine.ask_for(query, portions, promise)

    async def wait_for(self, stream_id: StreamId | None) -> None:
        """Return when the engine has learned `stream_id`.

        Raises:
            NotReady: the service is starting.
            NotSeenYet: not within two seconds.
        """
        self._check_started()
        if stream_id is not None:
            await self._engine.wait_for(stream_id)

    def write_refusal(self) -> ServiceError | None:
        """The error with which a write must be refused now, or None."""
        try:
            self._check_started()
        except NotReady as error:
            return error
        if self._archive.obstacle is not None:
            return LogUnavailable(f"The rating log cannot be written: {self._archive.obstacle}")
        return None

    async def verify_redis(self, run_id: str) -> None:
        """Check for a front process that ratings may be written to the server with this run id.

        Raises:
            NotReady: the service is starting.
            ServiceError: see `Stream.verify_run`.
        """
        self._check_started()
        await self.blocking(self._stream.verify_run, run_id)

    def archive_all(self) -> StreamId:
        """Wait until the log has all that is acknowledged now, and return the last id. Call it by `blocking`.

        Raises:
            StreamUnavailable: Redis is gone.
            LogUnavailable: no process archives, or it takes too long.
        """
        return archive_up_to(self._stream, self._rating_log, self._stream.last_id())

    def note_acknowledged(self, entries: list[tuple[str, dict[bytes, bytes]]]) -> None:
        """Keep entries that another process of the service has written, until the rating log has them."""
        self._stream.note((StreamId.parse(stream_id), fields) for stream_id, fields in entries)

    async def archive_rest(self) -> None:
        """Commit what came after the archiver's process has ended, or was killed. With a store the worker does it."""
        if self.settings.store is None:
            await in_thread(Archiver(self._stream, self._rating_log).finish, THREADS_STOP_S)

    async def blocking(self, call: Callable[..., _Value], *arguments: Any) -> _Value:
        """Run a call that waits for Redis or the disk, see `BlockingCalls.run`."""
        return await self._blocking.run(call, *arguments)

    def _check_started(self) -> None:
        if not self._is_started:
            readiness = self._failed or self._engine.can_answer  # even if models are being prepared
            if not readiness.ready:
                raise NotReady(readiness.reason or "the service is starting", round(readiness.fraction, 3))
            self._is_started = True

    # --- start

    def _start_engine(self) -> None:
        """Start the engine and the learner, which reads the log while Redis may still be starting."""
        settings = self.settings
        chosen = backend.choose(settings.backend).load().ranking_on(settings.ranking_gpus)
        _log.info("backend chosen", backend=chosen.name, reason=chosen.reason, ranking_gpus=settings.ranking_gpus)
        limits = Limits(settings.max_batch, settings.max_waiting, settings.max_wait_ms / 1000)
        history = History(settings.event_types)
        # The event loop calls these while the engine thread writes: an id that is being added may count as new.
        knows = history.users.__contains__, history.items.__contains__
        self.new_ids = NewIds(settings.max_new_ids_per_hour, *knows, settings.max_new_names_per_hour)
        half_lives = parse_half_lives(settings.half_lives)
        models, fails, repeat, seen_types = settings.default_models, self._fail, settings.repeat, settings.seen_types
        engine = Engine(history, chosen, models, limits, self.metrics, fails, half_lives, repeat, seen_types)
        self._engine = engine
        for add in parts().engine:
            add(self, engine)
        engine.stages.obstruct(REDIS, "Redis is starting")
        engine.start(asyncio.get_running_loop())
        self.threads_to_stop.append(engine.stop)
        if settings.store is None:  # the archiver's process, or what copies the log from a store
            self._archive: Archive = self.reports
        else:
            follow = parts().follow
            assert follow is not None  # noqa: S101 (`service.processes.process` has refused the setting)
            follower = follow(settings, self._rating_log, engine, self.metrics, self._fail_from_thread)
            self.threads_to_stop.append(follower.stop)
            self._archive = follower
        self._run_part(Learner(engine, self._stream, self._rating_log, self._archive.wait))
        self.traces = engine.traces
        self.writes = Writes(
            self._stream.writer,
            refusal=self.write_refusal,
            max_waiting=settings.max_waiting,
            metrics=self.metrics,
            on_traced=engine.traces.note,
            check=self._check_format,
        )
        watch(engine.history, self.metrics)
        watch_device(chosen, self.metrics)
        watch_archiver(self._archive, self.metrics)
        self.hotswap = HotSwap(self.settings.data, engine, self.metrics)
        self.jobs = Jobs(
            self._table,
            self._stream,
            settings.data,
            self.hotswap.served,
            self.hotswap.failures.reason_of,
            settings.quota_training_minutes,
        )
        self.hotswap.cause = self.jobs.trace_of
        self.quotas = Quotas(settings.quotas, history, settings.data, self.jobs.minutes_used)
        watch_quotas(self.quotas, settings.quotas, self.metrics)
        self.statistics = Statistics(engine, self._stream, self._rating_log, self.quotas)
        self._measuring = asyncio.create_task(self._measure_quotas())

    async def _boot(self, server: RedisServer | None) -> None:
        try:
            if server is not None:
                await asyncio.to_thread(server.start)
            elif self.settings.redis is None:
                shared = RedisServer(self.settings.root)  # the process of the default data set starts it
                while not (self._is_stopping or await asyncio.to_thread(lambda: shared.is_alive)):
                    await asyncio.sleep(RETRY_S)
            await self._verified()
            with contextlib.suppress(CorruptLiveFile, LockTimeout, OSError):  # the parts that need the file report it
                await asyncio.to_thread(live_versions.seal, self.settings.data)
            self._run_part(self.hotswap)
            self._watching = asyncio.create_task(self._watch_redis())
        except Exception as error:
            if not self._is_stopping:  # else the server was stopped while it loaded its data
                self._fail(error)

    async def _measure_quotas(self) -> None:
        while True:
            with contextlib.suppress(ServiceError, OSError):  # others report that Redis or the disk fails
                await self.blocking(self.quotas.measure)
            await asyncio.sleep(MEASURE_EVERY_S)

    async def _watch_redis(self) -> None:
        """Make the service not ready while Redis refuses writes, which reads of the stream would not notice."""
        reported = ""
        while True:
            try:
                await self._stream.writer.check_writable()
                if reported:  # it may be another server, without the key
                    await self._agree_on_key()
            except (ServiceError, OSError) as error:
                if str(error) != reported:
                    _log.warning("redis takes no writes", error=str(error))
                reported = str(error)
                self._engine.stages.obstruct(REDIS, reported)
            else:
                reported = ""
                self._engine.stages.clear(REDIS)
            await asyncio.sleep(CHECK_REDIS_EVERY_S)

    async def _agree_on_key(self) -> None:
        self._engine.signer.key = await asyncio.to_thread(signing_key.agree, self.settings.data, self._stream)

    async def _verified(self) -> None:
        """Wait until the server is there and verified; raise at once if it is volatile."""
        reported = ""
        while not self._is_stopping:
            try:
                await asyncio.to_thread(self._stream.verify)
                await self._agree_on_key()
            except VolatileServer:
                raise
            except Unavailable as error:
                if str(error) != reported:
                    _log.warning("redis cannot be used", error=str(error))
                reported = str(error)
                self._engine.stages.obstruct(REDIS, str(error))
                await asyncio.sleep(RETRY_S)
            else:
                self._engine.stages.clear(REDIS)
                return
