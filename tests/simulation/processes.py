"""The processes of the service in a world: the classes of production, wired as `service.processes` wires them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np

from gpu import algorithms
from gpu.algorithms import params_for
from gpu.base.backend import HOST
from gpu.data.model import Model
from service.base import threads
from service.base.errors import NotReady, ServiceError
from service.base.threads import PartThread
from service.engine import compilation, model_swap
from service.engine.learner import Learner
from service.engine.model_swap import HotSwap
from service.engine.readiness import Stages
from service.extras.stores import object_store, publisher
from service.extras.stores.follower import Follower
from service.extras.stores.object_store import ObjectStore
from service.extras.stores.publisher import Publisher
from service.jobs.forget import Places, forget
from service.processes import front_serving
from service.processes.front_serving import FrontServing
from service.processes.messages import Acknowledged
from service.settings.keyspace import DEFAULT
from service.storage import archiver, exclusion, files
from service.storage.archive import ReportedArchive
from service.storage.archiver import Archiver
from service.storage.errors import LogUnavailable
from service.storage.events import NOOP_VERSION, Entry, StreamId
from service.storage.log import segment
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot, version_names
from service.storage.snapshots.forgetting import without_forgotten
from service.storage.streams import offering, stream, stream_writer
from service.storage.streams.stream import Stream
from service.storage.streams.verification import Loss, Verification
from service.telemetry.metrics import Metrics
from tests.service.logs import contents
from tests.simulation import bucket, columns
from tests.simulation.bucket import Bucket
from tests.simulation.disk import Disk
from tests.simulation.redis_server import Client, Connection, Server
from tests.simulation.truth import Learned, Truth
from tests.simulation.virtual import PROCESS, Event, Lock, Process, World

URL = "redis://simulated"
LOOK_S, RETRY_S = 0.5, 0.5  # seconds between looks of a process at another
# What takes an hour of the service takes seconds of a world.
SHORT = {
    (archiver, "COMMIT_EVERY_S"): 1.0,
    (archiver, "TIDY_EVERY_S"): 1.5,
    (archiver, "KEEP_STREAM_MS"): 1500,
    (archiver, "READ_BLOCK_MS"): 400,
    (archiver, "PAUSE_S"): 1.0,
    (stream, "DROP_EVERY_S"): 0.5,
    (stream, "REPACKED"): 5,
    (publisher, "POLL_S"): 1.0,
    (publisher, "LOOK_EVERY_S"): 5.0,
}

hints_of = functools.cache(get_type_hints)  # each world loads models of one kind
ROOMS = "service.storage", "service.extras.stores", "service.engine", "service.base", "service.jobs"


@functools.cache
def timed() -> list[tuple[Any, str]]:
    """The modules of the service that use `time` or `threading`, with the name."""
    modules = [module for name, module in sys.modules.items() if name.startswith(ROOMS)]
    found = [(module, "time") for module in modules if getattr(module, "time", None) is time]
    found += [(module, "threading") for module in modules if getattr(module, "threading", None) is threading]
    return [each for each in found if each != (threads, "threading")]


METRICS = Metrics(of_process=False)  # of all processes; nobody reads them
DONE: Future[Any] = Future()
DONE.set_result(None)


class Cluster:
    """All processes, the disk, Redis and the store of one world."""

    def __init__(self, world: World) -> None:
        self.world, self.disk, self.server, self.bucket = world, Disk(), Server(world), Bucket(world)
        self.truth = Truth()
        self.engines: dict[int, Engine] = {}  # by the number of the replica
        self.jobs: list[tuple[str, StreamId]] = []  # forgettings that are not done
        self.trains = False
        self._n_versions = 0
        self.server.on_add = self.truth.added
        self.lines: list[str] = []  # what happened
        self._ends: dict[PartThread, Event] = {}  # of those that were started

    def data(self, number: int) -> Path:
        """DATA of a process."""
        return self.disk.root / f"data{number}"

    def note(self, text: str) -> None:
        """Add a line."""
        self.lines.append(f"{self.world.time():.3f} {text}")

    def new_version(self) -> str:
        """The version of the next snapshot."""
        self._n_versions += 1
        return f"als-20270115T08{self._n_versions // 60:02}{self._n_versions % 60:02}-{self._n_versions:04x}"

    # --- in place of what the service uses

    def patches(self) -> Iterator[tuple[Any, str, Any]]:
        """Owner, name and value of each."""
        world = self.world
        stands_for = {
            "time": SimpleNamespace(
                monotonic=world.time, perf_counter=world.time, sleep=world.sleep, time=world.wall_s
            ),
            "threading": SimpleNamespace(Event=functools.partial(Event, world), Lock=functools.partial(Lock, world)),
        }
        for module, name in timed():
            yield module, name, stands_for[name]
        # A class binds these, as it would not bind methods.
        yield PartThread, "start", lambda thread: self._start(thread)  # noqa: PLW0108
        yield PartThread, "join", lambda thread: self._join(thread)  # noqa: PLW0108
        yield files, "fsync", self._fsync
        yield files, "rename", self._rename
        yield files.FileLock, "__init__", lambda lock, descriptor: self._own(lock, descriptor)  # noqa: PLW0108
        yield segment, "pq", columns
        yield stream, "connect", lambda url: Client(self.server)
        yield Stream, "memory_share", lambda stream: 0.0
        yield Stream, "rewrite_aof", lambda stream, folder: None
        for module in (offering, stream_writer):
            yield module, "Connection", Connection
        Connection.server = self.server
        yield front_serving, "Link", functools.partial(Link, self)
        yield front_serving, "Metrics", lambda of_process: METRICS
        yield object_store, "library_named", lambda name: self.bucket
        yield Verification, "check_promises", lambda verification: True
        yield algorithms, "get_type_hints", hints_of
        yield compilation, "compile_reading", lambda: None
        yield model_swap.HotSwap, "compile", lambda swap: None
        yield model_swap.HotSwap, "swap", lambda swap, loaded: swap._engine.install(loaded)
        for (owner, name), value in SHORT.items():
            yield owner, name, value

    def _start(self, thread: PartThread) -> None:
        end = self._ends[thread] = Event(self.world)

        def run() -> None:
            thread.run()
            end.set()

        self.world.thread(self.world.process, run)

    def _join(self, thread: PartThread) -> None:
        if thread in self._ends:
            self._ends[thread].wait()

    def _fsync(self, descriptor: int) -> None:
        self.world.sleep(self.world.random.random() * 0.01)
        self.disk.fsync(descriptor)

    def _rename(self, source: Path, target: Path) -> None:
        self.world.sleep(self.world.instant())
        self.disk.rename(source, target)

    def _own(self, lock: files.FileLock, descriptor: int) -> None:
        lock.descriptor = descriptor
        self.world.process.on_kill.append(lock.release)


class Link:
    """A `service.processes.link.Link`: messages from a front to the engine's process of its replica."""

    def __init__(
        self, cluster: Cluster, number: int, name: str, max_open: int, registry: Any, on_open: Callable[[], None]
    ) -> None:
        self._cluster, self._number, self._on_open, self._process = cluster, number, on_open, PROCESS.get()
        self._joined: Engine | None = None
        self._order_s = 0.0

    def start(self) -> None:
        self._cluster.world.task(self._process, self._keep_connected())

    async def _keep_connected(self) -> None:
        while True:
            engine = self._engine
            if engine is not self._joined:
                self._joined = engine
                if engine is not None:
                    self._on_open()
            await asyncio.sleep(LOOK_S)

    @property
    def _engine(self) -> Engine | None:
        engine = self._cluster.engines.get(self._number)
        return engine if engine is not None and engine.process.is_alive else None

    def _arrival_s(self) -> float:
        """When what is sent now arrives: in the order of sending."""
        self._order_s = max(self._order_s, self._cluster.world.time() + self._cluster.world.instant())
        return self._order_s

    def tell(self, message: Any) -> None:
        engine = self._engine
        if engine is not None and isinstance(message, Acknowledged) and self._process.is_alive:
            self._cluster.world.call_at(self._arrival_s(), engine.take, message)

    def ask(self, make: Callable[[int], Any]) -> asyncio.Future[Any]:
        engine, arrived = self._engine, asyncio.Event()
        if engine is None or engine is not self._joined:
            raise NotReady("the engine's process is away", 0.0)
        self._cluster.world.call_at(self._arrival_s(), arrived.set)
        return self._cluster.world.task(self._process, self._answer(engine, make(1).run_id, arrived))

    async def _answer(self, engine: Engine, run_id: str, arrived: asyncio.Event) -> None:
        await arrived.wait()
        with contextlib.suppress(asyncio.CancelledError):
            if engine.process.is_alive:
                return await self._cluster.world.task(engine.process, engine.verify(run_id))
        raise NotReady("the engine's process has ended", 0.0)

    def write_refusal(self) -> ServiceError | None:
        engine = self._engine
        return NotReady("the engine's process is away", 0.0) if engine is None else engine.write_refusal()

    def quota_refusal(self) -> None:
        """No world has a quota."""


class Front:
    """A process that speaks HTTP."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.process = Process(f"front {number}")
        settings: Any = SimpleNamespace(data=cluster.data(number), redis=URL, max_waiting=1000, keyspace=DEFAULT)
        connect: Any = number  # which the `Link` of a world takes in its place
        self.serving: FrontServing = self.process.run(lambda: FrontServing(settings, connect, "front"))
        cluster.world.task(self.process, self._begin())

    async def _begin(self) -> None:
        self.serving.start()
        offering: Any = self.serving._offering
        self.process.on_kill.append(offering._task.cancel)


class Engine(Learned):
    """The engine's process, in which the engine learns and answers nothing."""

    def __init__(self, cluster: Cluster, number: int, folder: int, *, follows: bool) -> None:
        self.process = Process(f"engine {number}")
        super().__init__(self.process.name, cluster.truth)
        self._cluster, world = cluster, cluster.world
        self.fail = self.process.kill  # then the parent starts another one
        self.data = cluster.data(folder)
        self.data.mkdir(exist_ok=True)
        cluster.truth.learners.add(self)
        self.process.on_kill.append(lambda: cluster.truth.learners.discard(self))
        self.log = RatingLog(self.data / "ratings")
        self.stream = a_stream(self.log, Loss.WORKER if follows else Loss.PROCESSES)
        self.stages, self.served = Stages(), dict[str, str]()
        self.history, self.backend, self.live = self, HOST, SimpleNamespace(shadows=frozenset(), expected=frozenset())
        self.reports, self._is_started = ReportedArchive(), False
        self.hotswap = HotSwap(self.data, self, METRICS)  # type: ignore[arg-type]
        self.hotswap._compiled = set()
        self.follower: Follower | None = None
        if follows:
            store = ObjectStore(bucket.URL)
            self.follower = Follower(store, self.data, self.log, lambda: self.as_of, lambda reason: None, self.fail)
            self.process.run(self.follower.start)
        wait: Any = (lambda stopping: None) if self.follower is None else self.follower.wait
        self.process.run(Learner(self, self.stream, self.log, wait).start)  # type: ignore[arg-type]
        world.task(self.process, self._boot())
        cluster.engines[number] = self

    async def _boot(self) -> None:
        while True:
            with contextlib.suppress(ServiceError):
                await asyncio.to_thread(self.stream.verify)
                break
            await asyncio.sleep(RETRY_S)
        self.process.run(self.hotswap.start)
        while True:
            with contextlib.suppress(ServiceError):
                await self.stream.writer.check_writable()
            await asyncio.sleep(1.0)

    # --- for fronts

    async def verify(self, run_id: str) -> None:
        if (refusal := self._not_started()) is not None:
            raise refusal
        await asyncio.to_thread(self.stream.verify_run, run_id)

    def take(self, message: Acknowledged) -> None:
        if self.process.is_alive:
            self.stream.note((StreamId.parse(stream_id), fields) for stream_id, fields in message.entries)

    def _not_started(self) -> ServiceError | None:
        self._is_started = self._is_started or self.stages.is_done("stream")
        return None if self._is_started else NotReady("the service is starting", 0.0)

    def write_refusal(self) -> ServiceError | None:
        refusal = self._not_started()
        if refusal is None and self.follower is None and self.reports.obstacle is not None:
            refusal = LogUnavailable(self.reports.obstacle)
        return refusal

    # --- in place of `service.engine.engine.Engine`

    @property
    def as_of(self) -> StreamId:
        return self.position

    def load(self, log: RatingLog) -> Future[None]:
        self.apply(contents(log))
        self.is_loaded = True
        self.stages.report("rating log")
        return DONE

    def learn(self, entries: list[Entry], gives_up: Callable[[], bool]) -> None:
        self._cluster.world.sleep(self._cluster.world.random.random() * 0.01)
        self.apply(entries)

    def models(self) -> list[Any]:
        return [SimpleNamespace(name=name, version=version) for name, version in self.served.items()]

    def table_of(self, *, has_strengths: bool) -> Any:
        return SimpleNamespace(n_users=0, n_items=0, n_ratings=0)

    def install(self, loaded: snapshot.Snapshot) -> None:
        watermark = StreamId.parse(loaded.manifest.watermark)
        self._truth.check(watermark <= self.position, f"{loaded.manifest.version} answers without what it has learned")
        self.served[version_names.name_of(loaded.manifest.version)] = loaded.manifest.version

    def run_slices(self, slices: Any) -> Future[Any]:
        deque(slices, maxlen=0)
        return DONE

    def remove(self, name: str) -> None:
        self.served.pop(name, None)


class Worker:
    """The archiver's process, which also trains and forgets; with a store it publishes."""

    def __init__(
        self, cluster: Cluster, number: int, engine_of: Callable[[], Engine | None], *, publishes: bool
    ) -> None:
        self.process = Process(f"worker {number}")
        self._cluster, self.data = cluster, cluster.data(number)
        self.data.mkdir(exist_ok=True)
        self.log = RatingLog(self.data / "ratings")
        self.stream, self._engine_of = a_stream(self.log, Loss.PROCESSES), engine_of
        self.publisher: Publisher | None = None
        self.archiver: Archiver | None = None
        if publishes:
            store = ObjectStore(bucket.URL)
            self.publisher = Publisher(store, self.data, self.stream, self.log, self.process.kill)
        cluster.world.task(self.process, self._work())

    async def _work(self) -> None:
        while True:
            try:
                if self.publisher is not None:
                    await asyncio.to_thread(self.publisher.prepare)
                elif (engine := self._engine_of()) is None or not engine.process.is_alive:
                    raise NotReady("the engine's process is away", 0.0)
                else:
                    await self._cluster.world.task(engine.process, engine.verify(""))
                break
            except (ServiceError, OSError, asyncio.CancelledError):
                await asyncio.sleep(RETRY_S)
        self.archiver = Archiver(self.stream, self.log, self.process.kill, self.publisher)
        self.process.run(self.archiver.start)
        if self.publisher is not None:
            self.process.run(self.publisher.start)
        self._cluster.world.thread(self.process, self._supervise)
        while True:
            engine = self._engine_of()
            if engine is not None and engine.process.is_alive and self.publisher is None:
                archiver = self.archiver
                engine.reports.take(archiver.obstacle, archiver.damage, archiver.lag_s, archiver.n_pending)
            await asyncio.sleep(LOOK_S)

    # --- jobs, as `service.jobs.supervisor` runs them

    def _supervise(self) -> None:
        world = self._cluster.world
        while True:
            world.sleep(0.3 + world.random.random())
            with contextlib.suppress(ServiceError, OSError):
                if self._cluster.jobs:
                    self._forget(*self._cluster.jobs[0])
                elif self._cluster.trains and world.random.random() < 0.3:
                    self._train()

    def _forget(self, user: str, position: StreamId) -> None:
        while self.log.last_id() < position:
            if (user, position) not in self._cluster.jobs:
                return
            self.stream.request_commit(position)
            self._cluster.world.sleep(LOOK_S)
        if (lock := exclusion.try_take(self.data, shared=False)) is None:
            return
        with lock:
            settle = (lambda: None) if self.publisher is None else self.publisher.settle
            jobs: Any = SimpleNamespace(drop_name=lambda job, user: None)
            places = Places(self.data, self.data / "redis", self.log, self.stream, jobs, settle)
            deque(forget(places, "job", user, position), maxlen=0)
            self._check_forgotten(user, position)
            if self._cluster.truth.forgets[user] == position:
                self._cluster.truth.forgotten.add(user)
            if (user, position) in self._cluster.jobs:
                self._cluster.jobs.remove((user, position))

    def _check_forgotten(self, user: str, position: StreamId) -> None:
        truth = self._cluster.truth
        entries = [entry for entry in contents(self.log) if entry.id < position]
        rows = [entry.id for entry in entries if user in {rating.user for rating in entry.ratings}]
        truth.check(not rows, f"{user} was forgotten and is in the log at {rows}")
        for version in snapshot.versions(self.data / "snapshots"):
            holds = snapshot.holds_user(self.data / "snapshots", version, user)
            truth.check(not holds, f"{user} was forgotten and is in {version}")
        there = self._cluster.server.state.fields.get(DEFAULT.ratings, {})
        left = [each for each, fields in there.items() if each <= position and fields.get(b"v") != NOOP_VERSION]
        truth.check(not left, f"{user} was forgotten, and Redis still has {left}")

    def _train(self) -> None:
        if (lock := exclusion.try_take(self.data, shared=True)) is None:
            return
        with lock:
            watermark = self.log.last_id()
            ratings = [rating for entry in contents(self.log) for rating in entry.ratings]
            users, items = (sorted({getattr(rating, name) for rating in ratings}) for name in ("user", "item"))
            if not users:
                return
            self._cluster.world.sleep(self._cluster.world.random.random() * 2)
            version = self._cluster.new_version()
            model = a_model(len(users), len(items))
            snapshot.write(
                self.data / "snapshots", model, users, items, metrics={}, watermark=str(watermark), version=version
            )
            version = without_forgotten(self.data, self.log, version)
            live_versions.activate(self.data, version_names.name_of(version), version)
            live_versions.prune(self.data, version_names.name_of(version))


def a_stream(log: RatingLog, loss: Loss) -> Stream:
    return Stream(URL, log.last_id, "always", log.known, loss=loss)


@functools.cache
def a_model(n_users: int, n_items: int) -> Model:
    model = Model.zeros(params_for("als", {"n_factors": 4}), 3.0, (1.0, 5.0), n_users, n_items)
    model.mark_trained(np.ones(n_users, np.int64), np.ones(n_items, np.int64))
    return model
