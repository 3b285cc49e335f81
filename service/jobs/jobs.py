"""`Jobs`: submits, shows and cancels jobs; `service.jobs.supervisor` runs them."""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import structlog

from service.engine import fairness
from service.engine.queries import Recommend
from service.jobs.errors import NoMinutesLeft
from service.jobs.job_trace import FIELD
from service.jobs.table import BEGUN, QUERY, SCENARIO, JobFields, JobTable, is_shadow, name_of, now_ms
from service.jobs.training import Training
from service.jobs.undo import Undo
from service.storage.errors import CorruptLiveFile, StreamUnavailable
from service.storage.events import StreamId
from service.storage.snapshots import live_versions, version_names
from service.storage.snapshots.manifest import StoredCalibration
from service.storage.streams.stream import Stream
from service.telemetry.trace_context import Trace

TRAIN, FORGET, LISTS, UNDO = "train", "forget", "lists", "undo"
MINUTE_S, DAY_S = 60.0, 86_400.0
NO_MINUTES = (
    "trainings have taken their quota of {:g} minutes within 24 hours: wait, or set NEARFIELD_QUOTA_TRAINING_MINUTES"
    " to more"
)
NO_WORKER = (
    "the job waits because no worker runs: start `nearfield worker` with the same data folder and Redis, "
    "or `nearfield serve` without --no-worker"
)
State = Literal["queued", "running", "activating", "succeeded", "failed", "cancelled"]

_log = structlog.get_logger(__name__)


class Due(NamedTuple):
    """A time at which the setting `schedules` asks for a job.

    Attributes:
        job: the id of this job, the same in all processes, so that the time has one job.
        schedule: the line of the setting.
    """

    job: str
    schedule: str


class Job(msgspec.Struct):
    """One job as clients see it.

    Attributes:
        kind: `train`, `forget`, `lists` or `undo`.
        name, shadow: the name of the model, and whether it becomes a shadow.
        params: hyperparameters over the defaults; of `lists`, the body that was sent, with the number of its users;
            of `undo`, what is taken back.
        state: `activating` while this process does not yet serve the promoted version.
        progress: 0 to 1.
        phase: what a running job does now, such as `reading`, `epoch 3 of 12` or `compiling 4 of 40`.
        metrics: of the last epoch; after the end, of the held-out pairs.
        calibration: the values that a training derived from the data; set after the end.
        trials: the trainings that a search for parameters has tried; set after the end.
        promoted: whether the new version went live; None while undecided.
        version: the snapshot that a training wrote.
        backend: whether it trains on the host or the device, and why.
        reason: why it waits or was not promoted, or a remark about the result.
        error: why it failed.
        created_ms: Unix milliseconds at which it was submitted.
        schedule: the line of the setting `schedules` that has submitted it; None: a request has, or a rule.
    """

    id: str
    kind: str
    state: State
    progress: float
    phase: str | None
    metrics: dict[str, float]
    algorithm: str | None
    name: str | None
    shadow: bool
    params: dict[str, Any]
    calibration: StoredCalibration | None
    trials: list[dict[str, Any]]
    promoted: bool | None
    version: str | None
    backend: str | None
    reason: str | None
    error: str | None
    created_ms: int
    schedule: str | None


class Jobs:
    """Submits, shows and cancels jobs. Every method may raise `StreamUnavailable`, and blocks for one call to Redis."""

    def __init__(
        self,
        table: JobTable,
        stream: Stream,
        data: Path,
        served: Callable[[], Mapping[str, str]] | None = None,
        swap_failure: Callable[[str], str | None] = lambda version: None,
        quota_minutes: float = math.inf,
    ) -> None:
        """Prepare.

        Args:
            table, stream, data: of the service.
            served: name to version of the models that answer in this process; None if it serves no requests.
            swap_failure: why a version could not be loaded; None if it was not tried or is live.
            quota_minutes: most minutes of trainings within 24 hours.
        """
        self._table, self._stream, self._data = table, stream, data
        self._served, self._swap_failure, self._quota_s = served, swap_failure, quota_minutes * MINUTE_S

    def submit_training(self, training: Training, due: Due | None = None) -> Job:
        """Queue a training on all ratings acknowledged until now, perhaps of a schedule. One runs at a time.

        If the same training waits already, it is the one that is returned; it will read these ratings too.

        Raises:
            Conflict: it shall be a shadow, and a model of that name answers.
            NoMinutesLeft: trainings have used their quota.
        """
        if self.seconds_left() <= 0:
            oldest_s = min(begin for begin, _ in self._spans())
            raise NoMinutesLeft(NO_MINUTES.format(self._quota_s / MINUTE_S), max(1, math.ceil(oldest_s + DAY_S)))
        if training.shadow:
            live_versions.check_shadow(live_versions.read_all(self._data), training.name)
        return self._submit({"kind": TRAIN, **training.fields()}, self._stream.last_id(), due, once=True)

    def submit_forgetting(self, user: str, position: StreamId) -> Job:
        """Queue the removal from disk of all data of `user` before the entry `position`."""
        return self._submit({"kind": FORGET, "user": user}, position)

    def submit_lists(self, query: Recommend, body: str = "{}", user_filter: str | None = None) -> Job:
        """Queue lists for many users.

        Args:
            query: what to list; `users` None: for all. Without a `model` the preferred one lists.
            body: what the client has sent, JSON, which the job shows as its `params`; it names no user.
            user_filter: canonical text of a filter of users, who alone get lists; default: none.

        Raises:
            UnknownModel: no model is live, or none of that name.
        """
        shadows = live_versions.read_all(self._data).shadows
        live = [name for name in (self._served() if self._served is not None else {}) if name not in shadows]
        name = live_versions.chosen(query.model, live)
        fields = {"kind": LISTS, "name": name, "params": body, QUERY: msgspec.json.encode(query).decode()}
        fields |= {} if user_filter is None else {"user_filter": user_filter}
        return self._submit(fields, self._stream.last_id())

    def submit_scenario(self, scenario: str, due: Due) -> Job:
        """Queue lists for all users by a scenario, which is that of the position at which they are made.

        The job fails if there is no such scenario, or no such model.
        """
        fields = {"kind": LISTS, SCENARIO: scenario, "params": msgspec.json.encode({"scenario": scenario}).decode()}
        return self._submit(fields, self._stream.last_id(), due, once=True)

    def minutes_used(self) -> float:
        """Minutes of trainings within the last 24 hours, of the jobs that Redis still has."""
        return sum(end - begin for begin, end in self._spans()) / MINUTE_S

    def seconds_left(self) -> float:
        """Seconds of trainings until the quota is used up; 0 or less if it is."""
        # One trains at a time, so a day of minutes is never used up.
        return math.inf if self._quota_s >= DAY_S else self._quota_s - self.minutes_used() * MINUTE_S

    def _spans(self) -> list[tuple[float, float]]:
        """When each training began and ended within the last 24 hours, in seconds up to now (negative)."""
        now, spans = now_ms(), []
        for job in self._table.all():
            if BEGUN in job:  # a training whose worker died has no end, and does not count
                end = now if job["state"] == "running" else int(job.get("finished_ms", job[BEGUN]))
                spans.append((max((int(job[BEGUN]) - now) / 1000, -DAY_S), (end - now) / 1000))
        return [(begin, end) for begin, end in spans if end > begin]

    def submit_undo(self, undo: Undo) -> Job:
        """Queue that everything which a source has sent until now is taken back, or counted."""
        fields = {"kind": UNDO, "params": msgspec.json.encode(undo).decode()}
        return self._submit(fields, self._stream.last_id(), once=True)

    def get(self, job_id: str) -> Job:
        """One job.

        Raises:
            UnknownJob: there is no such job.
        """
        return self.shown(self._table.get(job_id))

    def list(self) -> list[Job]:
        """All jobs, newest first."""
        return [self.shown(fields) for fields in self._table.all()]

    def trace_of(self, version: str) -> Trace | None:
        """The span of the job that wrote a snapshot; None if it is not recorded, or nobody knows."""
        with contextlib.suppress(StreamUnavailable):
            headers = (job.get(FIELD) for job in self._table.all() if job.get("version") == version)
            return Trace.of_header(next(headers, None))
        return None

    def cancel(self, job_id: str) -> Job:
        """Cancel a queued job, or ask the worker of a running one to stop. A finished job does not change.

        Raises:
            UnknownJob: there is no such job.
        """
        return self.shown(self._table.cancel(job_id))

    def order(self, kind: str, name: str) -> None:
        """Ask the worker to activate a version or end a model, see `service.jobs.orders`; `StreamUnavailable`."""
        self._table.order(f"{kind} {name}")

    def trainings(self, name: str) -> Sequence[str]:
        """The ids of the queued and running trainings of the model `name`."""
        trainings = [job for job in self._table.all() if job["kind"] == TRAIN and name_of(job) == name]
        return [job["id"] for job in trainings if job["state"] in ("queued", "running")]

    def cancel_trainings(self, name: str) -> Sequence[str]:
        """Cancel the queued and running trainings of the model `name`; returns their ids."""
        return [self._table.cancel(job_id)["id"] for job_id in self.trainings(name)]

    def _submit(
        self, fields: dict[str, str], watermark: StreamId, due: Due | None = None, *, once: bool = False
    ) -> Job:
        trace = fairness.current.get().trace
        further = {"watermark": str(watermark)} | ({} if trace is None else {FIELD: trace.header})
        further |= {} if due is None else {"schedule": due.schedule}
        job_id = self._table.submit(secrets.token_hex(6) if due is None else due.job, fields, further, once=once)
        self._stream.request_commit(watermark)
        job = self.get(job_id)
        if job.reason is not None:
            _log.warning(job.reason, job=job_id)
        return job

    def shown(self, fields: JobFields) -> Job:
        """A job as clients see it, of its fields in Redis."""
        version = fields.get("version")
        state: Any = fields["state"]
        reason, error = fields.get("reason") or None, fields.get("error")
        if state == "queued" and not self._table.has_worker():
            reason = NO_WORKER
        if version and state == "succeeded" and fields.get("promoted") == "1" and self._served is not None:
            name, live = name_of(fields), dict[str, str]()
            with contextlib.suppress(CorruptLiveFile):  # `HotSwap` reports it
                live = live_versions.read(self._data)
            # Otherwise this process serves it, or a newer version has replaced it.
            if self._served().get(name) != version and live.get(name) == version:
                failure = self._swap_failure(version)
                state, error = ("activating", error) if failure is None else ("failed", failure)
        return Job(
            id=fields["id"],
            kind=fields["kind"],
            state=state,
            progress=float(fields.get("progress", 0)),
            phase=fields.get("phase") if state == "running" else None,
            metrics=msgspec.json.decode(fields.get("metrics", "{}")),
            algorithm=fields.get("algorithm"),
            name=fields.get("name", fields.get("algorithm")),
            shadow=is_shadow(fields),
            params=msgspec.json.decode(fields.get("params", "{}")),
            trials=msgspec.json.decode(fields.get("trials", "[]")),
            calibration=msgspec.json.decode(fields.get("calibration", "null"), type=StoredCalibration | None),
            promoted=fields["promoted"] == "1" if "promoted" in fields else None,
            version=None if version is None else version_names.shown(version),
            backend=fields.get("backend"),
            reason=reason,
            error=error,
            created_ms=int(fields["created_ms"]),
            schedule=fields.get("schedule"),
        )
