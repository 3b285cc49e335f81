"""`LocalServing`: what the routes need of the service, from a `Runtime` in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from service.api.operations import (
    ActivateModel,
    ArchiveAll,
    Archived,
    CancelJob,
    CheckNewIds,
    CheckNewNames,
    EndedModel,
    EndModel,
    ExperimentPut,
    ForgetUser,
    Forgotten,
    GetJob,
    GetMetrics,
    GetStats,
    JobList,
    ListJobs,
    ListModels,
    ModelList,
    PutExperiment,
    Ready,
    SubmitLists,
    SubmitTraining,
)
from service.api.serving import check_shared
from service.base.errors import NotReady
from service.engine.models.model_info import ModelInfo
from service.engine.queries import Query, Recommend
from service.engine.queries.encoding import encoded, json_of
from service.engine.queries.experiment_queries import KIND, CheckArms, CheckUnused
from service.jobs.forget import REMAINS
from service.jobs.orders import ACTIVATE, END
from service.processes.runtime import Runtime
from service.storage.documents import Document
from service.storage.documents import encode as encode_json
from service.storage.events import Fields, RatingEvent, StreamId, TypedEvent, encode_document, encode_subject
from service.storage.snapshots import live_versions, snapshot, version_names
from service.telemetry.metrics_sum import MetricsSum
from service.telemetry.scrape import Scrape


def _end_model(runtime: Runtime, name: str) -> EndedModel:
    """End a model; no training makes it live again."""
    live_versions.check_listed(live_versions.read_all(runtime.settings.data), name)
    cancelled = set(runtime.jobs.cancel_trainings(name))
    if runtime.settings.store is None:
        runtime.hotswap.end(name)
    else:
        runtime.jobs.order(END, name)
    cancelled |= set(runtime.jobs.cancel_trainings(name))  # one that was submitted meanwhile
    return EndedModel(name, sorted(cancelled))


def _activate(runtime: Runtime, version: str) -> ModelInfo:
    """Make a version live; a replica that follows a store asks the worker to do it."""
    if runtime.settings.store is None:
        return runtime.hotswap.activate(version)
    folder = runtime.settings.data / "snapshots"
    snapshot.verify(folder, snapshot.latest_revision(folder, version))
    runtime.jobs.order(ACTIVATE, version)
    runtime.hotswap.failures.try_again(snapshot.latest_revision(folder, version))
    runtime.hotswap.poke()
    return next(one for one in runtime.hotswap.models() if one.version == version_names.shown(version))


# Operations that wait for Redis or the disk.
_CALLS: dict[type, Callable[[Runtime, Any], Any]] = {
    SubmitTraining: lambda runtime, asked: runtime.jobs.submit_training(asked.training),
    ListJobs: lambda runtime, _: JobList(runtime.jobs.list()),
    GetJob: lambda runtime, asked: runtime.jobs.get(asked.job),
    CancelJob: lambda runtime, asked: runtime.jobs.cancel(asked.job),
    SubmitLists: lambda runtime, asked: runtime.jobs.submit_lists(asked.n, asked.filter, asked.model, asked.given),
    ArchiveAll: lambda runtime, _: Archived(str(runtime.archive_all())),
    GetStats: lambda runtime, _: runtime.statistics.take(),
    ListModels: lambda runtime, _: ModelList(runtime.hotswap.models()),
    ActivateModel: lambda runtime, asked: _activate(runtime, asked.version),
}


class Others(NamedTuple):
    """The metrics of further processes: their sum, and a call that brings it up to date."""

    counts: MetricsSum
    update: Callable[[], Awaitable[None]]


class LocalServing:
    """See `service.api.serving.Serving`, which has the errors of each method."""

    def __init__(self, runtime: Runtime, others: Others | None = None) -> None:
        """Serve from `runtime`; pages of metrics include those of `others`."""
        self.settings, self.metrics = runtime.settings, runtime.metrics
        self._runtime, self._counts = runtime, others and others.counts
        self._scrape = Scrape(self._page, others and others.update)
        self._arms = asyncio.Lock()  # an experiment does not get an arm whose model is ending
        self._tasks: dict[type, Callable[[Any], Awaitable[Any]]] = {
            ForgetUser: self._forget,
            PutExperiment: self._put_experiment,
            EndModel: self._end_model,
        }
        self._put_at: StreamId | None = None  # position of the newest experiment that was put here

    def ask(self, query: Query, wait_for: StreamId | None = None) -> asyncio.Future[Any]:
        """A future of the answer; a task only if it has to wait first."""
        if wait_for is None:
            return self._runtime.ask_now(query)
        return asyncio.ensure_future(self._runtime.ask(query, wait_for))

    def json_of_answer(self, answer: Any) -> bytes:
        """The JSON of the result of `ask`."""
        return encoded(answer)[0]

    async def answer(self, query: Query, wait_for: StreamId | None = None) -> bytes:
        """The JSON of one answer."""
        return encoded(await self._runtime.ask(query, wait_for))[0]

    async def answer_each(self, query: Recommend, wait_for: StreamId | None = None) -> list[bytes]:
        """The JSON of each recommendation."""
        return encoded(await self._runtime.ask(query, wait_for))

    async def operate(self, operation: Struct, wait_for: StreamId | None = None) -> bytes:
        """The JSON of the answer, or a page."""
        if wait_for is not None:
            await self._runtime.wait_for(wait_for)
        return json_of(await self._perform(operation))

    async def append(self, fields: Fields) -> StreamId:
        """Append one durable entry."""
        return await self._runtime.append(fields)

    async def check_new_ids(self, elements: Sequence[RatingEvent] | Sequence[TypedEvent]) -> None:
        """Count new users and items against the limit."""
        self._runtime.new_ids.check({element.user for element in elements}, {element.item for element in elements})

    async def check_new_items(self, items: Sequence[str]) -> None:
        """Count new items against the limit."""
        self._runtime.new_ids.check((), set(items))

    async def _perform(self, operation: Struct) -> Any:
        if isinstance(operation, SubmitLists):
            check_shared(self.settings, "lists of all users", "it is not available with NEARFIELD_STORE")
        call = _CALLS.get(type(operation))
        if call is not None:
            return await self._runtime.blocking(call, self._runtime, operation)
        if (call_of_extra := self._runtime.calls.get(type(operation))) is not None:
            return await self._runtime.blocking(call_of_extra, operation)
        if (task := self._tasks.get(type(operation))) is not None:
            return await task(operation)
        if isinstance(operation, GetMetrics):
            return await self._scrape.page(operation.kind)
        if isinstance(operation, CheckNewIds | CheckNewNames):
            return self._check_new(operation)
        return self._ready()

    def _check_new(self, operation: CheckNewIds | CheckNewNames) -> None:
        if isinstance(operation, CheckNewIds):
            self._runtime.new_ids.check(set(operation.users), set(operation.items))
        else:
            self._runtime.new_ids.check_names(operation.n_new)

    def _ready(self) -> Ready:
        readiness = self._runtime.readiness
        if not readiness.ready:
            raise NotReady(readiness.reason or "the service is starting", fraction=round(readiness.fraction, 3))
        return Ready("ready", str(self._runtime.as_of), self._runtime.hotswap.failures.left_out())

    async def _forget(self, asked: ForgetUser) -> Forgotten:
        stream_id = await self._runtime.append(encode_subject("forget", asked.user))
        job = await self._runtime.blocking(self._runtime.jobs.submit_forgetting, asked.user, stream_id)
        return Forgotten(str(stream_id), job.id, REMAINS)

    async def _put_experiment(self, asked: PutExperiment) -> ExperimentPut:
        body = encode_json(asked.experiment).decode()
        async with self._arms:
            await self._runtime.ask(CheckArms([arm.model for arm in asked.experiment.arms]))
            self._put_at = await self._runtime.append(encode_document(Document(KIND, asked.name, body)))
            return ExperimentPut(str(self._put_at))

    async def _end_model(self, asked: EndModel) -> EndedModel:
        async with self._arms:
            await self._runtime.ask(CheckUnused(asked.model), self._put_at)
            return await self._runtime.blocking(_end_model, self._runtime, asked.model)

    def _page(self, kind: str) -> bytes:
        self.metrics.ready.set(self._runtime.readiness.ready)
        return self.metrics.text(kind, self._counts)
