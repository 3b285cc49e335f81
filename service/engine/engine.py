"""`Engine`: one thread that owns the history and the live models, and the queues into it.

The thread answers all waiting requests as one batch. Scoring comes first, but a learning batch never waits longer than
`LEARNING_WAIT_S`, and less while few requests wait. Learning and the preparation of models run in slices of a few
milliseconds between the batches. Only this thread changes models or history, so neither needs a lock.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Sized
from concurrent.futures import Future
from types import GeneratorType
from typing import Any

import structlog

from gpu.base.backend import Backend
from service.base.errors import NotReady, Overloaded, ServiceError
from service.base.threads import PartThread, unheard
from service.engine.background import SLICE_S, Background, Slices
from service.engine.batch_traces import BatchTraces
from service.engine.catch_up import CatchUp
from service.engine.fairness import Portion
from service.engine.lists.ranking import Ranking
from service.engine.models.live_model import LiveModel
from service.engine.models.prequential import Prequential
from service.engine.pending_events import EventBatch, PendingEvents
from service.engine.pending_queries import Limits, PendingQueries, PendingQuery, Promise
from service.engine.queries import Query, Repeat
from service.engine.readiness import Readiness, Stages
from service.engine.state.history import History
from service.engine.state.rating_runs import RatingRun
from service.engine.waiters import Waiters
from service.settings.half_lives import DEFAULT_HALF_LIVES
from service.storage.events import Entry, StreamId
from service.storage.log.rating_log import RatingLog
from service.telemetry.metrics import Metrics

LEARNING_WAIT_S = 0.010  # seconds; longest wait of a learning batch while requests keep coming
CROWD = 64  # waiting requests from which on learning waits so long; before fewer of them it waits less
CATCH_UP_S = 0.010  # seconds; how long `as_of` may wait for the refits that an event caused, if no other event waits
MOST_LONG = 32  # queries that are answered in slices; each holds some 5 MB for a million users or items
FULL = f"{MOST_LONG} requests that read all users or items are already being answered"
QUERIES, EVENTS = ("queries",), ("events",)  # labels of queues in metrics
BACKGROUND_WAIT_S, LONG_WAIT_S = 0.100, 0.010  # seconds; `wait_s` of background work, and of answers in slices

_log = structlog.get_logger(__name__)


class Engine:
    """Answers queries, learns, and loads new models, all on one thread.

    Attributes:
        history: ids and last ratings; use it only in slices (`run_slices`).
        live: the live models; only `model_swap` changes it.
        signer: signs cursors and recommendation ids; takes the key of the service once Redis is there.
        planner, answer_to: see `Ranking`; extras add to them before the start.
        stages: progress of the start; the service is ready when all are done.
        traces: records batches.
        failure: the error that stopped the thread, or None.
        n_forgotten: number of users who have been forgotten since the start.
    """

    def __init__(
        self,
        history: History,
        backend: Backend,
        default_models: Sequence[str],
        limits: Limits,
        metrics: Metrics | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
        half_lives: Mapping[str, float] = DEFAULT_HALF_LIVES,
        repeat: Repeat = "auto",
        seen_types: Sequence[str] = (),
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            history: ids and ratings so far; belongs to the engine from now on.
            backend: where models live.
            default_models: names of models, preferred ones first; the first live one answers.
            limits: how many queries may wait, how long, and how many one batch holds.
            metrics: series to update; None updates none.
            on_failure: called once, on the event loop, when an exception has ended the thread.
            half_lives, repeat, seen_types: see `Ranking`.
        """
        self.history, self.backend = history, backend
        self.stages = Stages()
        self.failure: BaseException | None = None
        self._metrics, self._on_failure = metrics or Metrics(), on_failure
        self._ranking = Ranking(history, default_models, half_lives, repeat, seen_types)
        self.live, self.signer = self._ranking.live, self._ranking.signer
        self._prequential = Prequential(history, self.live.tested, self._metrics)
        self.planner, self.answer_to = self._ranking.planner, self._ranking.answer_to
        self.answer_to |= self._prequential.answer_to
        self.n_forgotten = 0
        self._as_of = self._target = history.position
        self._pending_queries, self._pending_events = PendingQueries(limits), PendingEvents()
        self._background, self._long = Background(BACKGROUND_WAIT_S), Background(LONG_WAIT_S)
        self._learning = list[EventBatch]()
        self._settled_s = 0.0  # monotonic seconds; when the live models had settled the present batch; 0: not yet
        self._catch_up = CatchUp(self._background, self._ranking, self._metrics, self.fail)
        self._waiters = Waiters(lambda: self._as_of, limits.max_waiting)
        self._stopping = threading.Event()
        self._thread = PartThread("engine", self._run, unheard)  # `_run` reports its failure itself, on the event loop
        queues: list[Sized] = [self._pending_queries, self._pending_events, self._background]
        for name, queue in zip(("queries", "events", "background"), queues, strict=True):
            self._metrics.queue_length.labels(name).set_function(queue.__len__)
        self.traces = BatchTraces(self._metrics)

    # --- from the event loop

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread; answers go to `loop`."""
        self._pending_queries.connect(loop)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the thread after its present step; requests that still wait get `NotReady`."""
        self._stopping.set()
        self._pending_queries.wake()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def ask(self, query: Query) -> asyncio.Future[Any]:
        """A future for the answer to `query`; `service.engine.queries` has the type of each answer.

        Raises:
            Overloaded: too many queries are waiting; or, when awaited, this one has waited for too long.
            NotReady: the engine has stopped.
            UnknownUser, UnknownItem, UnknownModel: see the query.
        """
        return self._pending_queries.put(query)

    def ask_for(self, query: Query, portions: Sequence[Portion], promise: Promise) -> None:
        """Like `ask`, for clients of a front process: `promise` gets the answer, on the event loop."""
        self._pending_queries.add(query, portions, promise)

    async def wait_for(self, stream_id: StreamId, timeout_s: float = 2.0) -> None:
        """Return when history and every live model have the entry `stream_id` or a later one.

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
        """Whether the service can answer with all its models, and if not, why."""
        if self.failure is not None:
            return Readiness(False, f"the engine failed: {self.failure}", 0.0)
        return self.stages.readiness

    @property
    def can_answer(self) -> Readiness:
        """Whether the service can answer at all: with popular items while models are being prepared."""
        return self.readiness if self.failure is not None else self.stages.can_answer

    def models(self) -> list[LiveModel]:
        """The live models, the first of which answers requests that name none; shadows come last."""
        return self._ranking.models()

    def learn(self, entries: Sequence[Entry], gives_up: Callable[[], bool] = lambda: False) -> None:
        """Queue the next entries, in order, at least one; blocks while the queue is full.

        Raises:
            NotReady: the engine has stopped, or `gives_up` returned true.
        """
        self._pending_events.put(entries, lambda: self._stopping.is_set() or gives_up())
        self._pending_queries.wake()

    def load(self, log: RatingLog) -> Future[None]:
        """Read the whole rating log into the history, which must be empty."""
        return self.run_slices(self._loading(log))

    def fail(self, error: BaseException) -> None:
        """Stop the engine because another part failed with `error`, which becomes `failure`."""
        self.failure = self.failure or error
        self._stopping.set()
        self._pending_queries.wake()

    def run_slices(self, slices: Slices) -> Future[Any]:
        """Run a generator on the engine thread, a step at a time; the future gets its value or its exception."""
        future = self._background.add(slices)
        self._pending_queries.wake()
        if self._stopping.is_set():  # the thread may have looked for the last time
            self._background.abandon(NotReady("the engine has stopped"))
        return future

    # --- within slices: hot swap

    def prepare(self, live_model: LiveModel) -> None:
        """Let `live_model` learn all entries from now on, before it is live."""
        self.live.preparing.append(live_model)

    def remove(self, name: str) -> None:
        """End the live model `name`, and what its tests have shown."""
        self.live.remove(name)
        self._prequential.drop(name)
        self._metrics.refits_waiting.remove(name)

    def try_install(self, live_model: LiveModel, *, is_patient: bool = False) -> bool:
        """Make a prepared `live_model` live if it has learned all of the history; return whether it is live.

        Args:
            is_patient: whether it must also have refitted its trained items (`LiveModel.catch_up`).

        Raises:
            RuntimeError: it failed to learn an entry and is no longer being prepared.
        """
        if live_model not in self.live.preparing:
            raise RuntimeError(f"{live_model.version} could not learn the ratings that came while it was prepared")
        if not (live_model.catch_up(SLICE_S) if is_patient else live_model.settle(SLICE_S)):
            return False
        self.live.discard(live_model)
        self._ranking.install(live_model)
        self._catch_up.start()
        return True

    # --- the thread

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._step()
        except BaseException as error:  # of any kind: the service must not go on without its engine
            self.failure = self.failure or error
        self._stopping.set()
        for queue in (self._background, self._long, self._pending_queries):
            queue.abandon(NotReady("the engine has stopped"))
        if self.failure is not None:
            _log.critical("engine failed", exc_info=self.failure)
            if self._on_failure is not None:
                self._pending_queries.call_on_loop(self._on_failure, self.failure)

    def _loading(self, log: RatingLog) -> Slices:
        segments = log.files.segments()
        first_ms, last_ms = (segments[0].first.ms, segments[-1].last.ms) if segments else (0, 0)

        def on_progress(_: int) -> None:
            done = (self.history.position.ms - first_ms) / max(last_ms - first_ms, 1)
            self.stages.report("rating log", 0.99 * done)

        self.history.load(log, on_progress=on_progress)
        yield
        self._ranking.recount()
        self._as_of = self._target = self.history.position
        self.stages.report("rating log")

    def _step(self) -> None:
        """One round: answer the waiting requests, then run one slice of learning or of background work, or sleep."""
        self._catch_up.resume()
        is_busy = self._learning or self._pending_events or self._background or self._long
        pending_queries = self._pending_queries.take(sleep=not is_busy)
        self._answer(pending_queries)
        now = time.monotonic()
        is_idle = not pending_queries and not self._pending_queries  # else a slice would follow each batch
        patience_s = LEARNING_WAIT_S * min(len(self._pending_queries) / CROWD, 1.0)
        since_s = self._learning[0].since if self._learning else self._pending_events.since
        if now - since_s >= patience_s:
            self._learn_slice(is_idle=is_idle)
            return
        queues = [one for one in (self._background, self._long) if one and (is_idle or now - one.last_s >= one.wait_s)]
        if queues:
            min(queues, key=lambda one: one.last_s).step()  # neither waits for the end of the other

    def _answer(self, pending_queries: Sequence[PendingQuery]) -> None:
        """Answer a batch; refuse the queries that have waited too long."""
        if not pending_queries:
            return
        now = time.monotonic()
        waits_s = [now - pending.since for pending in pending_queries for _ in range(pending.n)]
        self._metrics.queue_seconds.observe(QUERIES, *waits_s)
        self._metrics.batch_size.observe((), len(waits_s))
        pending_queries = self._pending_queries.in_time(pending_queries, now)
        answers = self._ranking.answer([pending.query for pending in pending_queries], self._as_of)
        if any(isinstance(answer, GeneratorType) for answer in answers):
            self._pending_queries.answer(*self._whole(pending_queries, answers))
        else:
            self._pending_queries.answer(pending_queries, answers)
        self.traces.ranked(pending_queries, now)
        if any(isinstance(answer, Exception) and not isinstance(answer, ServiceError) for answer in answers):
            self.backend.check()  # without a working device every request would fail while the service reports ready

    def _whole(
        self, pending_queries: Sequence[PendingQuery], answers: Sequence[Any]
    ) -> tuple[list[PendingQuery], list[Any]]:
        """The queries that are answered, and their answers. Those whose answers are slices get theirs later."""
        whole = list[PendingQuery](), list[Any]()
        for pending, answer in zip(pending_queries, answers, strict=True):
            if isinstance(answer, GeneratorType) and len(self._long) < MOST_LONG:

                def finish(future: Future[Any], pending: PendingQuery = pending) -> None:
                    self._pending_queries.answer([pending], [future.exception() or future.result()])

                slices = self._pending_queries.within_time(pending, answer)
                self._long.add(slices).add_done_callback(finish)
                continue
            whole[0].append(pending)
            whole[1].append(Overloaded(FULL) if isinstance(answer, GeneratorType) else answer)
        return whole

    def _learn_slice(self, *, is_idle: bool) -> None:
        """Apply the next batch, or go on settling those before; `as_of` moves when every live model has them.

        Refits of items that the batch caused follow at once if the engine `is_idle`, else in the background.
        """
        if not self._learning or self._pending_events.may_join(self._learning):
            taken, began = self._pending_events.take(), time.monotonic()
            self._metrics.queue_seconds.observe(EVENTS, *[began - event_batch.since for event_batch in taken])
            self._apply([run for event_batch in taken for run in event_batch.runs])
            self._learning += taken
            if time.monotonic() >= began + SLICE_S:
                return  # answer requests that arrived meanwhile before the models refit
        deadline = time.monotonic() + SLICE_S
        if all(model.settle(max(deadline - time.monotonic(), 0.0)) for model in self._ranking.models()):
            self._settled_s = self._settled_s or time.monotonic()
            can_wait = is_idle and not self._pending_events and not self._catch_up.is_resting
            if not can_wait or time.monotonic() - self._settled_s >= CATCH_UP_S or self._catch_up.step():
                self._settled_s = 0.0
                self._advance()

    def _apply(self, runs: Sequence[RatingRun]) -> None:
        self._prequential.test(self._ranking.models(), runs)
        applied = self.history.apply_runs(runs)
        self.n_forgotten += len(applied.forgotten)
        self._ranking.note(applied)
        self.live.learn(applied)
        self._target = self.history.position
        self._catch_up.start()

    def _advance(self) -> None:
        pending_events, self._learning = self._learning, []
        self._as_of = self._target
        now, clock = time.monotonic(), time.time()
        for event_batch in pending_events:
            self._metrics.learn_seconds.observe(now - event_batch.since)
            self._metrics.ratings_learned.inc(event_batch.n_ratings)
            self._metrics.freshness_seconds.observe((), max(0.0, clock - event_batch.last.ms / 1000))
        self.traces.learned(pending_events)
        if self._waiters:
            self._pending_queries.call_on_loop(self._waiters.release)
