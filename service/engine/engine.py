"""`Engine`: the one thread that owns the history and the live models, and everything that waits for it.

Requests are taken all at once and answered together. Scoring comes first, but a learning batch never waits longer than
`LEARNING_WAIT_S`; learning and the preparation of new models go in slices of a few milliseconds in between. Only this
thread changes models or history, so nothing in it needs a lock.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any

import structlog

from gpu.backend import Backend
from service.engine.background import SLICE_S, Background, Slices
from service.engine.catch_up import CatchUp
from service.engine.history import History
from service.engine.live_model import LiveModel
from service.engine.pending_events import EventBatch, PendingEvents
from service.engine.pending_queries import Limits, PendingQueries, PendingQuery
from service.engine.queries import Query
from service.engine.ranking import Ranking
from service.engine.readiness import Readiness, Stages
from service.engine.waiters import Waiters
from service.errors import NotReady, ServiceError
from service.metrics import Metrics
from service.storage.events import Entry, StreamId
from service.storage.rating_log import RatingLog
from service.threads import PartThread, unheard

LEARNING_WAIT_S = 0.010
CATCH_UP_S = 0.010  # that an event is held back, if no other waits, so that what follows from it is there with it
QUERIES, LESSONS = ("queries",), ("lessons",)  # labels of queues
BACKGROUND_WAIT_S = 0.050  # longest time between two slices of a hot swap while requests keep coming

_log = structlog.get_logger(__name__)


class Engine:
    """Answers queries, learns, and takes in new models, all on one thread.

    Attributes:
        history: ids and last ratings; only to be touched from slices (`run_slices`).
        stages: what is still missing before the service is ready.
        failure: what stopped the thread, if something did.
    """

    def __init__(
        self,
        history: History,
        backend: Backend,
        default_models: Sequence[str],
        limits: Limits,
        metrics: Metrics | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            history: what is known so far; belongs to the engine from now on.
            backend: where models live.
            default_models: ranked names of models; the first live one answers.
            limits: how many queries may wait, how long, and how many are answered together.
            metrics: series to keep; None keeps none.
            on_failure: called on the event loop, once, when the thread has died of an exception.
        """
        self.history, self.backend = history, backend
        self.stages = Stages()
        self.failure: BaseException | None = None
        self._ranking = Ranking(history, default_models)
        self._metrics, self._on_failure = metrics or Metrics(), on_failure
        self._preparing: list[LiveModel] = []
        self._n_forgotten = 0
        self._as_of = self._target = history.position
        self._pending_queries = PendingQueries(limits)
        self._pending_events = PendingEvents()
        self._learning: list[EventBatch] = []
        self._background = Background()
        self._settled_s = 0.0  # when the live models had learned what is being learned; 0: not yet
        self._catch_up = CatchUp(self._background, self._ranking, self._metrics, self.fail)
        self._waiters = Waiters(lambda: self._as_of, limits.max_waiting)
        self._stopping = threading.Event()
        self._thread = PartThread("engine", self._run, unheard)  # it tells by itself, on the event loop
        self._observe_queues()

    # --- from the event loop

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread; answers go to `loop`."""
        self._pending_queries.connect(loop)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Let the thread finish what it does and end; whoever still waits gets `NotReady`."""
        self._stopping.set()
        self._pending_queries.wake()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def ask(self, query: Query) -> asyncio.Future[Any]:
        """The answer to `query` (`service.engine.queries` pairs them), awaited.

        Raises:
            Overloaded: too many queries are waiting, or, when awaited, this one has for too long.
            NotReady: the engine has stopped.
            UnknownUser, UnknownItem, UnknownModel: see the query.
        """
        return self._pending_queries.put(query)

    async def wait_for(self, stream_id: StreamId, timeout_s: float = 2.0) -> None:
        """Return once history and every live model have the entry `stream_id`; at once if they have a later one.

        Raises:
            NotSeenYet: not within `timeout_s`.
            Overloaded: too many wait.
        """
        await self._waiters.wait_for(stream_id, timeout_s)

    # --- from any thread

    @property
    def as_of(self) -> StreamId:
        """The last entry that history and every live model have."""
        return self._as_of

    @property
    def readiness(self) -> Readiness:
        """Whether requests can be answered well, and if not, why."""
        if self.failure is not None:
            return Readiness(False, f"the engine failed: {self.failure}", 0.0)
        return self.stages.readiness

    @property
    def can_answer(self) -> Readiness:
        """Whether requests can be answered at all: lists of popular items, while models are being prepared."""
        return self.readiness if self.failure is not None else self.stages.can_answer

    @property
    def taken(self) -> StreamId:
        """The last entry that the history has; live models may still be learning it."""
        return self.history.position

    @property
    def n_forgotten(self) -> int:
        """How many users have been forgotten since the start."""
        return self._n_forgotten

    def models(self) -> list[LiveModel]:
        """The live models, in the order in which they are asked by default."""
        return self._ranking.models()

    def learn(self, entries: Sequence[Entry], gives_up: Callable[[], bool] = lambda: False) -> None:
        """Hand in the next entries, in order; blocks while too many are waiting.

        Raises:
            NotReady: the engine has stopped, or `gives_up` said so.
        """
        self._pending_events.put(entries, lambda: self._stopping.is_set() or gives_up())
        self._pending_queries.wake()

    def load(self, log: RatingLog) -> Future[None]:
        """Read the whole rating log into the history, which must be empty."""
        return self.run_slices(self._loading(log))

    def fail(self, error: BaseException) -> None:
        """Stop everything because a part that the engine depends on has failed; see `failure`."""
        self.failure = self.failure or error
        self._stopping.set()
        self._pending_queries.wake()

    def run_slices(self, slices: Slices) -> Future[Any]:
        """Run a generator on the engine thread, one step at a time when nothing else is due; its value comes back.

        An exception in it goes to the future and harms nothing else.
        """
        future = self._background.add(slices)
        self._pending_queries.wake()
        if self._stopping.is_set():  # the thread may have looked for the last time
            self._background.abandon(NotReady("the engine has stopped"))
        return future

    def expect(self, names: Collection[str]) -> None:
        """Models of these names are being prepared: until they are live, lists say so, and other requests are 503."""
        self._ranking.expected = frozenset(names)

    # --- within slices: hot swap

    def prepare(self, live_model: LiveModel) -> None:
        """Let `live_model` learn along from now on, before it is live."""
        self._preparing.append(live_model)

    def discard(self, live_model: LiveModel) -> None:
        """Stop preparing `live_model`."""
        if live_model in self._preparing:
            self._preparing.remove(live_model)

    def try_install(self, live_model: LiveModel, *, is_patient: bool = False) -> bool:
        """Make a prepared `live_model` live if it has everything the history has; returns whether it is.

        Args:
            is_patient: whether it must have caught up too.

        Raises:
            RuntimeError: it failed to learn meanwhile and is not prepared any more.
        """
        if live_model not in self._preparing:
            raise RuntimeError(f"{live_model.version} could not learn what came while it was prepared")
        if not (live_model.catch_up(SLICE_S) if is_patient else live_model.settle(SLICE_S)):
            return False
        self.discard(live_model)
        self._ranking.install(live_model)
        self._catch_up.start()
        return True

    # --- the thread

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._step()
        except BaseException as error:  # whatever it is, the service must not go on half alive
            self.failure = self.failure or error
        self._stopping.set()
        self._abandon_all()
        if self.failure is not None:
            _log.critical("engine failed", exc_info=self.failure)
            if self._on_failure is not None:
                self._pending_queries.tell(self._on_failure, self.failure)

    def _loading(self, log: RatingLog) -> Slices:
        segments = log.segments()
        first_ms, last_ms = (segments[0].first.ms, segments[-1].last.ms) if segments else (0, 0)

        def on_progress(n_rows: int) -> None:
            del n_rows
            done = (self.history.position.ms - first_ms) / max(last_ms - first_ms, 1)
            self.stages.report("rating log", 0.99 * done)

        self.history.load(log, on_progress=on_progress)
        yield
        self._ranking.recount()
        self._as_of = self._target = self.history.position
        self.stages.report("rating log")

    def _step(self) -> None:
        """One round: answer who waits, then one slice of learning, else one of background work, else sleep."""
        self._answer(self._pending_queries.take(sleep=not (self._has_lessons() or self._background)))
        now = time.monotonic()
        if self._has_lessons() and (not self._pending_queries or now - self._learning_since() >= LEARNING_WAIT_S):
            self._learn_slice()
        elif self._background and (not self._pending_queries or now - self._background.last_s >= BACKGROUND_WAIT_S):
            self._background.step()

    def _answer(self, pending_queries: list[PendingQuery]) -> None:
        """Answer a batch, but not those who have waited too long."""
        if not pending_queries:
            return
        now = time.monotonic()
        self._metrics.queue_seconds.observe(QUERIES, *[now - pending.since for pending in pending_queries])
        self._metrics.batch_size.observe((), len(pending_queries))
        pending_queries = self._pending_queries.in_time(pending_queries, now)
        answers = self._ranking.answer([pending.query for pending in pending_queries], self._as_of)
        self._pending_queries.answer(pending_queries, answers)
        if any(isinstance(answer, Exception) and not isinstance(answer, ServiceError) for answer in answers):
            self.backend.check()  # a device that is gone would fail everybody, and the service still be called ready

    def _has_lessons(self) -> bool:
        return bool(self._learning or self._pending_events)

    def _learning_since(self) -> float:
        return self._learning[0].since if self._learning else self._pending_events.since

    def _learn_slice(self) -> None:
        """Apply the next batch, or go on settling the one before; `as_of` moves when every live model has it."""
        if not self._learning:
            self._learning = self._pending_events.take()
            began = time.monotonic()
            self._metrics.queue_seconds.observe(LESSONS, *[began - event_batch.since for event_batch in self._learning])
            self._apply([entry for event_batch in self._learning for entry in event_batch.entries])
            if time.monotonic() >= began + SLICE_S:
                return  # who has asked meanwhile need not wait for the models too
        deadline = time.monotonic() + SLICE_S
        if all(model.settle(max(deadline - time.monotonic(), 0.0)) for model in self._ranking.models()):
            now = time.monotonic()
            self._settled_s = self._settled_s or now
            if self._pending_events or now - self._settled_s >= CATCH_UP_S or self._catch_up.step():
                self._settled_s = 0.0
                self._advance()

    def _apply(self, entries: Sequence[Entry]) -> None:
        applied = self.history.apply(entries)
        self._n_forgotten += len(applied.forgotten)
        self._ranking.note(applied)
        for live_model in self._ranking.models():
            live_model.learn(applied)
        for live_model in tuple(self._preparing):
            try:
                live_model.learn(applied)
            except Exception as error:  # costs the new model, not the service
                _log.error("model cannot learn", version=live_model.version, error=str(error))
                self.discard(live_model)
        self._target = self.history.position
        self._catch_up.start()

    def _advance(self) -> None:
        pending_events, self._learning = self._learning, []
        self._as_of = self._target
        now, clock = time.monotonic(), time.time()
        for event_batch in pending_events:
            self._metrics.learn_seconds.observe(now - event_batch.since)
            self._metrics.ratings_learned.inc(event_batch.n_ratings)
            self._metrics.freshness_seconds.observe(max(0.0, clock - event_batch.entries[-1].id.ms / 1000))
        if self._waiters:
            self._pending_queries.tell(self._waiters.release)

    def _abandon_all(self) -> None:
        error = NotReady("the engine has stopped")
        self._background.abandon(error)
        self._pending_queries.abandon(error)

    def _observe_queues(self) -> None:
        queues = self._metrics.queue_length
        queues.labels("queries").set_function(lambda: len(self._pending_queries))
        queues.labels("lessons").set_function(lambda: len(self._pending_events))
        queues.labels("background").set_function(lambda: len(self._background))
