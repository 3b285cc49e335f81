"""`Simulation`: one world from one seed: clients write, everything fails, and the promises are checked."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import gc
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from random import Random
from typing import Any, NoReturn

import pytest
import structlog

from service.base.errors import ServiceError
from service.settings.keyspace import DEFAULT
from service.storage.errors import CorruptLiveFile, CorruptLog, CorruptSnapshot
from service.storage.events import ZERO, RatingEvent, StreamId, encode_ratings, encode_subject
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment_folder import last_of
from service.storage.snapshots import live_versions, snapshot
from tests.service.logs import contents
from tests.simulation.disk import BROKEN, NO_SPACE
from tests.simulation.processes import Cluster, Engine, Front, Worker
from tests.simulation.redis_server import State
from tests.simulation.virtual import Process, World

FAULTS_S = 8.0  # seconds during which things fail; then everything works again
WORKER = 9  # number of the folder of a worker that publishes to a store
A_PART = 100  # worlds that a process runs at once
A_SWEEP = 20  # worlds after which their garbage is collected: looking for it all the time takes a tenth of theirs
WEIGHTS = (0.1, 1.0, 1.0, 5.0)  # of a fault: each world has its own, as some coincidences need one fault often
A_SECOND = (0.35, 4.0)  # faults after the last one: they come in bursts, as those that meet find most
CLOCKS_S = (0.0, 1.0, 5.0, 30.0, 3600.0, -5.0)  # by which the clock of another Redis may be behind


class Simulation:
    """One world."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.chance = self.world.chance("faults")
        self.cluster = Cluster(self.world)
        self.has_store = self.chance.random() < 0.25
        self.cluster.trains = self.chance.random() < 0.4
        self.n_services = self.chance.choice((1, 1, 2))
        self.fronts: dict[int, Front] = {}
        self.workers: dict[int, Worker] = {}
        self.copies: list[State] = []  # of Redis, the oldest first
        self.users = Process("users")
        self.has_lost = self.is_over = False
        self.n_written = 0
        self.cluster.server.on_trim = self._trimmed

    def run(self) -> list[str]:
        """What was broken."""
        with patched(self.cluster):
            try:
                chance = self.world.chance("parent")
                self._start_missing(chance)
                self.cluster.disk.settle()
                for number in range(3):
                    self.world.task(self.users, self._write(number))
                self.world.task(self.users, self._parent(chance))
                self.world.task(self.users, self._fail())
                self.world.task(self.users, self._end())
                self.world.run_forever()
            finally:
                self.world.end()
                self.cluster.disk.remove()
        return self.cluster.truth.broken + [f"{type(error).__name__}: {error}" for error in self.world.failures]

    # --- processes

    def _slots(self) -> Iterator[tuple[dict[int, Any], int, Callable[[], Any]]]:
        cluster: Any = self.cluster
        for n in range(self.n_services):
            shared = n if self.has_store else 0  # services share a folder, unless each follows the store
            engine_of = functools.partial(cluster.engines.get, n)
            yield cluster.engines, n, functools.partial(Engine, cluster, n, shared, follows=self.has_store)
            yield self.fronts, n, functools.partial(Front, cluster, n)
            if not self.has_store:
                yield self.workers, n, functools.partial(Worker, cluster, 0, engine_of, publishes=False)
        if self.has_store:
            yield self.workers, WORKER, lambda: Worker(cluster, WORKER, lambda: None, publishes=True)

    def _start_missing(self, chance: Random) -> None:
        for slots, number, make in self._slots():
            if number not in slots or (not slots[number].process.is_alive and chance.random() < 0.5):
                slots[number] = make()

    async def _parent(self, chance: Random) -> None:
        while True:
            await asyncio.sleep(0.1 + chance.random())
            self._start_missing(chance)

    def _processes(self) -> list[Any]:
        every: list[Any] = [*self.fronts.values(), *self.cluster.engines.values(), *self.workers.values()]
        return [each for each in every if each.process.is_alive]

    # --- clients

    async def _write(self, number: int) -> None:
        truth, chance = self.cluster.truth, self.world.chance(f"client {number}")
        await asyncio.sleep(chance.random() * 2)
        while not self.is_over:
            front = self.fronts[chance.randrange(self.n_services)]
            if front.process.is_alive:
                before = dict(truth.acknowledged)
                self.n_written += 1
                user = f"u{chance.randrange(4)}"
                if chance.random() < 0.04:
                    content: Any = ("forget", (), user)
                    fields = encode_subject("forget", user)
                else:
                    rating = RatingEvent(user, f"i{chance.randrange(6)}", float(self.n_written), 1.0)
                    content = ("rating", ((rating.user, rating.item, rating.rating),), None)
                    fields = encode_ratings([rating])
                with contextlib.suppress(ServiceError, OSError, asyncio.CancelledError):
                    stream_id = await self.world.task(front.process, front.serving.append(fields))
                    if content[0] == "forget":
                        truth.forgets[user] = max(stream_id, truth.forgets.get(user, ZERO))
                        truth.forgotten.discard(user)
                        self.cluster.jobs.append((user, stream_id))
                    truth.acknowledge(stream_id, content, before)
            await asyncio.sleep(chance.expovariate(2.0))

    # --- faults

    async def _fail(self) -> None:
        faults = [
            self._kill,
            self._kill,
            self._cut_power,
            self._restart_redis,
            self._replace_redis,
            self._replace_redis,
            self._replace_redis,
            self._hang_redis,
            self._slow_redis,
            self._fail_disk,
            self._lose_store,
            self._set_clock,
            self._copy_redis,
            self._copy_redis,
        ]
        weights = [self.chance.choice(WEIGHTS) for _ in faults]
        end_s = self.world.time() + FAULTS_S
        while self.world.time() < end_s:
            await asyncio.sleep(self.chance.expovariate(self.chance.choice(A_SECOND)))
            (fault,) = self.chance.choices(faults, weights)
            if self.world.time() < end_s:
                self.cluster.note(fault.__name__)
                self.world.task(self.users, fault())  # the next one may come before it is over

    async def _kill(self) -> None:
        if living := self._processes():
            chosen = self.chance.choice(living)
            self.cluster.note(chosen.process.name)
            chosen.process.kill()
            self._excuse(self._processes())

    async def _cut_power(self) -> None:
        for each in self._processes():
            each.process.kill()
        self.cluster.server.kill()
        self.cluster.disk.power_cut(self.chance)
        self._excuse(self._processes())
        await asyncio.sleep(self.chance.random())
        self.cluster.server.start()

    async def _restart_redis(self) -> None:
        self.cluster.server.kill()
        await asyncio.sleep(self.chance.expovariate(1.0))
        self.cluster.server.start()

    async def _copy_redis(self) -> None:
        self.copies.append(copy.deepcopy(self.cluster.server.state))

    async def _replace_redis(self) -> None:
        server = self.cluster.server
        server.kill()
        await asyncio.sleep(self.chance.expovariate(1.0))
        state = self.chance.choice([*self.copies[-2:], State()])
        server.behind_s = self.chance.choice(CLOCKS_S)
        self.cluster.note(f"last {state.last.get(DEFAULT.ratings)}, behind {server.behind_s}")
        self.copies.clear()
        meets = self.chance.choice((None, self._kill, self._hang_redis))
        if meets == self._kill:  # what ran beside it is lost with it
            await self._kill()
        server.start(state)
        self.has_lost = True
        self._excuse(self._processes())
        if meets == self._hang_redis:  # all connect at once
            await asyncio.sleep(self.chance.random() * 0.6)
            await self._hang_redis()

    async def _hang_redis(self) -> None:
        server, end_s = self.cluster.server, self.world.time() + self.chance.random() * 6
        server.hangs_until_s = max(server.hangs_until_s, end_s)  # else some would hang on, and others go on

    async def _slow_redis(self) -> None:
        self.cluster.server.latency_s = self.chance.choice((0.002, 0.03, 0.03))

    async def _fail_disk(self) -> None:
        share = self.chance.choice((0.2, 0.7))
        faults = [self.chance.choice((NO_SPACE, BROKEN)) * (self.chance.random() < share) for _ in range(20)]
        self.cluster.disk.faults = faults

    async def _lose_store(self) -> None:
        self.cluster.bucket.is_up = False
        await asyncio.sleep(self.chance.expovariate(0.5))
        self.cluster.bucket.is_up = True

    async def _set_clock(self) -> None:
        self.world.skew_s += self.chance.choice((-3600.0, -2.0, 2.0, 3600.0))

    def _excuse(self, holders: Iterable[Any]) -> None:
        """Excuse entries that neither Redis nor the log has, nor any of these processes."""
        if not self.has_lost:
            return
        cluster, logged = self.cluster, last_of(self._durable())
        there = cluster.server.state.fields.get(DEFAULT.ratings, {})
        tails = [each.serving._tail if isinstance(each, Front) else each.stream._tail for each in holders]
        held = set().union(*(tail.ids() for tail in tails))
        cluster.truth.excused |= {
            each for each in cluster.truth.written if each > logged and each not in there and each not in held
        }
        cluster.jobs = [job for job in cluster.jobs if job[1] not in cluster.truth.excused]  # Redis has lost these, too

    def _durable(self) -> list[str]:
        """The names of the segments that no power cut can take away."""
        return self.cluster.disk.names(self.cluster.data(WORKER if self.has_store else 0) / "ratings")

    def _trimmed(self, upto: StreamId, removed: list[StreamId]) -> None:
        for names in (self._durable(), *([self.cluster.bucket.segments()] if self.has_store else [])):
            self.cluster.truth.trimmed(upto, removed, names)

    # --- the end

    async def _end(self) -> None:
        truth, server = self.cluster.truth, self.cluster.server
        await asyncio.sleep(FAULTS_S)
        server.latency_s, self.cluster.disk.faults = 0.002, []
        n_acknowledged = len(truth.acknowledged)
        end_s = self.world.time() + 60.0
        while not self._is_quiet(n_acknowledged) and self.world.time() < end_s:
            await asyncio.sleep(0.5)
        truth.check(self._is_quiet(n_acknowledged), f"the service does not recover: {self._why()}")
        self.is_over = True
        self._check()
        self.world.stop()

    def _is_quiet(self, n_acknowledged: int) -> bool:
        """Whether writes go on, all is learned and archived, and all jobs are done."""
        truth = self.cluster.truth
        self.is_over = self.is_over or len(truth.acknowledged) >= n_acknowledged + 3
        there = self.cluster.server.state.fields.get(DEFAULT.ratings, {})  # also what nobody was told of yet
        last = max((truth.acknowledged.keys() - truth.excused) | there.keys(), default=ZERO)
        engines = list(self.cluster.engines.values())
        logs = [worker.log for worker in self.workers.values()] + [engine.log for engine in engines]
        return (
            self.is_over
            and not self.cluster.jobs
            and all(engine.process.is_alive and engine.as_of >= last for engine in engines)
            and all(log.last_id() >= last for log in logs)
            and all(engine.served == live_versions.read(engine.data) for engine in engines)
        )

    def _why(self) -> str:
        workers = [
            worker.archiver and (worker.archiver.obstacle, worker.archiver.damage) for worker in self.workers.values()
        ]
        engines = [(engine.as_of, engine.stages.readiness.reason) for engine in self.cluster.engines.values()]
        return f"{len(self.cluster.jobs)} jobs, {workers}, {engines}, is over: {self.is_over}"

    def _check(self) -> None:
        truth = self.cluster.truth
        try:
            for folder in {worker.log.folder for worker in self.workers.values()}:
                entries = contents(RatingLog(folder))
                truth.check_log(entries)
                for engine in self.cluster.engines.values():
                    engine.check(entries)
            for folder in {worker.data / "snapshots" for worker in self.workers.values()}:
                for version in snapshot.versions(folder):
                    watermark = StreamId.parse(snapshot.read_manifest(folder, version).watermark)
                    for user in truth.forgotten:
                        is_kept = watermark >= truth.forgets[user] or not snapshot.holds_user(folder, version, user)
                        truth.check(is_kept, f"{user} was forgotten and is in {version} at the end")
            for engine in self.cluster.engines.values():
                for version in live_versions.read(engine.data).values():
                    snapshot.verify(engine.data / "snapshots", version)
        except (CorruptLog, CorruptSnapshot, CorruptLiveFile) as error:
            truth.check(False, str(error))


@contextlib.contextmanager
def patched(cluster: Cluster) -> Iterator[None]:
    """Let the service live in a world."""

    def note(logger: Any, method: str, facts: Any) -> NoReturn:
        """What the service logs stands beside the faults."""
        cluster.note(f"{cluster.world.process.name}: {facts.pop('event')} {facts or ''}")
        raise structlog.DropEvent

    config = structlog.get_config()
    structlog.configure(processors=[note], wrapper_class=structlog.BoundLogger, cache_logger_on_first_use=False)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for owner, name, value in cluster.patches():
                patch.setattr(owner, name, value, raising=False)
            yield
    finally:
        structlog.configure(**config)


Outcome = tuple[dict[int, list[str]], int]  # what worlds have broken, by seed, and how many entries all acknowledged


def run_part(seeds: range) -> Outcome:
    """Run these worlds, one after the other."""
    failures, n_acknowledged = {}, 0
    gc.freeze()  # what was imported is no garbage
    gc.disable()
    try:
        for number, seed in enumerate(seeds, 1):
            simulation = Simulation(seed)
            if promises := simulation.run():
                failures[seed] = promises
            n_acknowledged += len(simulation.cluster.truth.acknowledged)
            if number % A_SWEEP == 0:
                gc.collect()
    finally:
        gc.enable()
    return failures, n_acknowledged


def run_worlds(seeds: range, n_processes: int) -> Iterator[Outcome]:
    """Run these worlds in processes that share them, in parts."""
    with ProcessPoolExecutor(n_processes, multiprocessing.get_context("fork")) as pool:
        yield from pool.map(run_part, [seeds[first : first + A_PART] for first in range(0, len(seeds), A_PART)])
