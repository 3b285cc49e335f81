"""`Performer`: performs in the engine's process the operations that the routes ask for."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Callable
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
    ForgetUser,
    Forgotten,
    GetJob,
    GetMetrics,
    GetReadiness,
    GetStats,
    JobList,
    ListJobs,
    ListModels,
    ModelList,
    Ready,
    SubmitLists,
    SubmitTraining,
    SubmitUndo,
)
from service.api.serving import check_shared
from service.base.errors import NotReady
from service.engine.models.model_info import ModelInfo
from service.engine.queries.encoding import json_of
from service.jobs.forget import REMAINS
from service.jobs.orders import ACTIVATE, END
from service.processes.runtime import Runtime
from service.storage.events import encode_subject
from service.storage.snapshots import live_versions, snapshot, version_names
from service.telemetry.metrics import Scrape
from service.telemetry.metrics_sum import MetricsSum


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
    last = snapshot.verify_latest(folder, version)
    runtime.jobs.order(ACTIVATE, version)
    runtime.hotswap.failures.try_again(last)
    runtime.hotswap.poke()
    return next(one for one in runtime.hotswap.models() if one.version == version_names.shown(version))


# Operations that wait for Redis or the disk.
_CALLS: dict[type, Callable[[Runtime, Any], Any]] = {
    SubmitTraining: lambda runtime, asked: runtime.jobs.submit_training(asked.training),
    ListJobs: lambda runtime, _: JobList(runtime.jobs.list()),
    GetJob: lambda runtime, asked: runtime.jobs.get(asked.job),
    CancelJob: lambda runtime, asked: runtime.jobs.cancel(asked.job),
    SubmitLists: lambda runtime, asked: runtime.jobs.submit_lists(asked.query, asked.body, asked.user_filter),
    SubmitUndo: lambda runtime, asked: runtime.jobs.submit_undo(asked.undo),
    ArchiveAll: lambda runtime, _: Archived(str(runtime.archive_all())),
    GetStats: lambda runtime, _: runtime.statistics.take(),
    ListModels: lambda runtime, _: ModelList(runtime.hotswap.models()),
    ActivateModel: lambda runtime, asked: _activate(runtime, asked.version),
    EndModel: lambda runtime, asked: _end_model(runtime, asked.model),
}


class Others(NamedTuple):
    """The other processes of the service.

    Attributes:
        counts: the sum of their metrics.
        update: brings `counts` up to date.
        tell_ready: returns when all fronts know that the service is ready.
    """

    counts: MetricsSum
    update: Callable[[], Awaitable[None]]
    tell_ready: Callable[[], Awaitable[None]]


class Performer:
    """Performs operations of `service.api.operations` and of extras, which have the errors of each."""

    def __init__(self, runtime: Runtime, others: Others) -> None:
        """Perform what `runtime` can do; pages of metrics include those of `others`."""
        self._runtime, self._others = runtime, others
        self._scrape = Scrape(self._page, others.update)

        async def check_new_ids(asked: CheckNewIds) -> None:
            users, items = set(asked.users), set(asked.items)
            runtime.quotas.check_new(users, items)
            runtime.new_ids.check(users, items)

        async def check_new_names(asked: CheckNewNames) -> None:
            runtime.new_ids.check_names(asked.n_new)

        runtime.calls |= {kind: functools.partial(runtime.blocking, call, runtime) for kind, call in _CALLS.items()}
        runtime.calls |= {
            CheckNewIds: check_new_ids,
            CheckNewNames: check_new_names,
            ForgetUser: self._forget,
            GetMetrics: lambda asked: self._scrape.page(asked.kind),
            GetReadiness: self._ready,
        }

    async def perform(self, operation: Struct) -> bytes:
        """The JSON of the answer, or a page."""
        if isinstance(operation, SubmitLists):
            check_shared(self._runtime.settings, "lists of all users", "it is not available with NEARFIELD_STORE")
        kind = type(operation)
        async with self._runtime.guards.get(kind, contextlib.nullcontext)(operation):
            return json_of(await self._runtime.calls[kind](operation))

    async def _ready(self, _: GetReadiness) -> Ready:
        readiness = self._runtime.readiness
        if not readiness.ready:
            raise NotReady(readiness.reason or "the service is starting", fraction=round(readiness.fraction, 3))
        await self._others.tell_ready()  # the client may write now, through any front
        return Ready("ready", str(self._runtime.as_of), self._runtime.hotswap.failures.left_out())

    def _page(self, kind: str) -> bytes:
        self._runtime.metrics.ready.set(self._runtime.readiness.ready)
        return self._runtime.metrics.text(kind, self._others.counts)

    async def _forget(self, asked: ForgetUser) -> Forgotten:
        stream_id = await self._runtime.writes.append(encode_subject("forget", asked.user))
        job = await self._runtime.blocking(self._runtime.jobs.submit_forgetting, asked.user, stream_id)
        return Forgotten(str(stream_id), job.id, REMAINS)
