"""`Supervisor`: the thread that takes one job at a time, and starts, watches and stops its trainer process."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable

import msgspec
import structlog

from service.base.backoff import Backoff
from service.base.errors import Unavailable
from service.base.threads import PartThread, helper, unheard
from service.jobs.forget import REMAINS, Places, forget
from service.jobs.job_trace import JobTrace
from service.jobs.jobs import FORGET, LISTS, NO_MINUTES, TRAIN, UNDO, Jobs
from service.jobs.schedule import Retraining
from service.jobs.table import BEGUN, JobFields, JobTable, is_shadow, name_of, now_ms
from service.jobs.trainer_messages import TrainerMessage
from service.jobs.trainer_process import TrainerModule, TrainerProcess, listing, planning, trainer_alone, training
from service.jobs.turns import turn
from service.jobs.undo import MERGED, Undo, Undoing
from service.settings.settings import Settings
from service.storage import exclusion
from service.storage.errors import StreamUnavailable
from service.storage.events import StreamId
from service.storage.files import FileLock
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, version_names
from service.storage.snapshots.forgetting import without_forgotten
from service.storage.streams.stream import Stream
from service.telemetry.metrics import Metrics

RENEW_EVERY_S = 1.0  # seconds between two renewals; a lease lasts ten

HOUR_S = 3600.0
POLL_S = 0.2  # seconds between two looks at a trainer
WAIT_S = 1.0  # seconds between two looks at the queue without a submission; a stop waits for its end
STOPPED = "the worker was stopped"
LATE = "the job ran for longer than {:g} hours: train fewer epochs, or set NEARFIELD_MAX_JOB_HOURS to more"

_log = structlog.get_logger(__name__)


class _Interrupted(Exception):
    """The job must stop: cancelled, lost to another worker, failed in the trainer, or this process stops.

    Attributes:
        outcome: final state of the job; None if it belongs to another worker now.
    """

    def __init__(self, outcome: str | None, error: str | None = None) -> None:
        super().__init__(outcome)
        self.outcome, self.error = outcome, error


class Supervisor:
    """Runs trainings in processes and forgettings in a thread, and renews the lease of the job."""

    def __init__(
        self,
        settings: Settings,
        table: JobTable,
        stream: Stream,
        log: RatingLog,
        metrics: Metrics,
        on_failure: Callable[[BaseException], None] = unheard,
        settle: Callable[[], None] = lambda: None,
        *,
        serves: bool = False,
        trainer: TrainerModule = trainer_alone,
    ) -> None:
        """Prepare; `start` starts the thread. See `PartThread`, `forget.Places` and `training` for the last four."""
        self._serves, self._trainer = serves, trainer
        self._settings, self._table, self._stream, self._rating_log = settings, table, stream, log
        self._metrics, self._settle = metrics, settle
        self._worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._jobs = Jobs(table, stream, settings.data, quota_minutes=settings.quota_training_minutes)
        self._retraining = Retraining(settings, log, self._jobs)
        self._renewed_s = 0.0
        self._kinds = {TRAIN: self._train, LISTS: self._list, FORGET: self._forget, UNDO: self._undo}
        self._stopping = threading.Event()
        self._thread = PartThread("supervisor", self._run, on_failure)

    def start(self) -> None:
        """Start taking jobs."""
        try:
            exclusion.clean(self._settings.data)
        except OSError as error:  # they only take disk space, and the next forgetting removes them or fails
            _log.warning("leftovers of snapshots cannot be removed", error=str(error))
        self._thread.start()

    def stop(self) -> None:
        """Stop the running job and end. A training fails; the next worker resumes a forgetting."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        backoff = Backoff("the worker", self._stopping)
        while not self._stopping.is_set():
            try:
                job = self._table.claim(self._worker)
                backoff.worked()
                if job is None:
                    self._retraining.submit_due()
                    self._table.wait(WAIT_S)
                else:
                    self._work(job)
            except Exception as error:  # Redis is gone, or an unforeseen error: neither may end this thread
                backoff.failed(error)

    # --- one job

    def _work(self, job: JobFields) -> None:
        _log.info("job started", job=job["id"], kind=job["kind"])
        self._trace = JobTrace(job)
        try:
            if job["kind"] not in self._kinds:
                raise _Interrupted(
                    "failed",
                    f"Invalid kind of job: expected {', '.join(sorted(self._kinds))}, got {job['kind'][:64]!r}; upgrade"
                    " this worker if a newer version has submitted the job",
                )
            with Lease(self._table, job["id"], self._worker):
                outcome, fields = "succeeded", self._kinds[job["kind"]](job)
        except _Interrupted as interrupted:
            if interrupted.outcome is None:
                _log.warning("job belongs to another worker now", job=job["id"])
                return
            if interrupted.error == STOPPED and job["kind"] != TRAIN:
                self._table.release(job["id"], self._worker)
                return
            outcome, fields = interrupted.outcome, {"error": interrupted.error} if interrupted.error else {}
        except Exception as error:
            outcome, fields = "failed", {"error": f"{type(error).__name__}: {error}"}
        self._trace.end(outcome, fields.get("error"))
        if not self._table.finish(job["id"], self._worker, outcome, fields | self._trace.fields):  # type: ignore[arg-type]
            _log.warning("job belongs to another worker now", job=job["id"], **fields)
            return
        self._metrics.jobs_finished.labels(outcome).inc()
        _log.info("job finished", job=job["id"], state=outcome, **fields)

    def _tend(self, job: JobFields, fields: dict[str, str] | None = None) -> None:
        """Renew the lease and publish `fields`.

        Raises:
            _Interrupted: the job must stop.
        """
        if self._stopping.is_set():
            raise _Interrupted("failed", STOPPED)
        if not fields and time.monotonic() - self._renewed_s < RENEW_EVERY_S:
            return
        with contextlib.suppress(StreamUnavailable):  # a short outage of Redis must not cost hours of training
            is_ours = self._table.renew(job["id"], self._worker, fields)
            self._renewed_s = time.monotonic()
            if not is_ours:
                raise _Interrupted(None)
            if "cancel" in self._table.get(job["id"]):
                raise _Interrupted("cancelled")

    def _await_log(self, job: JobFields) -> None:
        """Wait until the rating log has all entries up to the job's watermark."""
        self._tend(job, {"phase": "waiting for the log"})
        watermark, backoff = StreamId.parse(job["watermark"]), Backoff("the worker", self._stopping)
        while self._rating_log.last_id() < watermark:
            self._tend(job)
            try:
                self._stream.request_commit(watermark)
            except StreamUnavailable as error:
                backoff.failed(error)
            else:
                backoff.worked()
                self._stopping.wait(POLL_S / 4)

    # --- training

    def _train(self, job: JobFields) -> dict[str, str]:
        self._trace.phase("wait")
        self._await_log(job)

        def pause() -> None:
            self._tend(job)
            self._stopping.wait(POLL_S)

        its_turn = turn(self._settings, pause, lambda reason: self._tend(job, {"reason": reason}))
        with its_turn, self._lock(job, shared=True) as lock:
            self._trace.phase("start")
            left_s, used_up = self._jobs.seconds_left(), NO_MINUTES.format(self._settings.quota_training_minutes)
            if left_s <= 0:
                raise _Interrupted("failed", used_up)
            self._tend(job, {"phase": "starting", BEGUN: str(now_ms())})
            try:
                with training(self._settings, job, lock, serves=self._serves, trainer=self._trainer) as process:
                    last = self._watch(job, process, left_s, used_up)
            finally:
                self._metrics.training_ranks.set(0)
            if last.outcome == "failed":
                raise _Interrupted("failed", last.error)
            self._trace.phase("activate")
            self._tend(job, {"phase": "activating"})
            version = without_forgotten(self._settings.data, self._rating_log, last.version or "")
            promoted, reason = decision(job, last)
            if promoted:
                self._activate(job, version)
            for gone in live_versions.prune(self._settings.data, name_of(job)):
                _log.info("snapshot removed", version=gone)
        fields = {
            "progress": "1",
            "version": version,
            "promoted": str(int(promoted)),
            "metrics": msgspec.json.encode(last.metrics).decode(),
            "calibration": msgspec.json.encode(last.calibration).decode(),
            "trials": msgspec.json.encode(last.trials).decode(),
        }
        more = {"reason": reason, "backend": last.backend}
        return fields | {name: text for name, text in more.items() if text is not None}

    def _activate(self, job: JobFields, version: str) -> None:
        """Make a version live while the job is ours and wanted; waits for Redis, which knows."""

        def check() -> None:
            if not self._table.renew(job["id"], self._worker):
                raise _Interrupted(None)
            if "cancel" in self._table.get(job["id"]):  # who ends a name cancels its trainings first
                raise _Interrupted("cancelled")

        backoff = Backoff("the worker", self._stopping)
        while True:
            try:
                live_versions.activate(self._settings.data, name_of(job), version, shadow=is_shadow(job), check=check)
            except StreamUnavailable as error:
                self._tend(job)
                backoff.failed(error)
            else:
                return

    def _lock(self, job: JobFields, *, shared: bool) -> FileLock:
        """Wait for the lock that excludes training and forgetting from each other, as long as we hold the job."""
        while (lock := exclusion.try_take(self._settings.data, shared=shared)) is None:
            self._tend(job)
            self._stopping.wait(POLL_S)
        return lock

    def _watch(
        self, job: JobFields, process: TrainerProcess, left_s: float = math.inf, reason: str = ""
    ) -> TrainerMessage:
        """Publish the trainer's messages until it ends; return the last one.

        `left_s`: seconds after which it is stopped for this `reason`, if `max_job_hours` are longer.
        """
        last, hours = TrainerMessage(), self._settings.max_job_hours
        if hours * HOUR_S < left_s:
            left_s, reason = hours * HOUR_S, LATE.format(hours)
        deadline_s = time.monotonic() + left_s
        while True:
            if time.monotonic() > deadline_s:
                raise _Interrupted("failed", reason)
            message = process.next_message(POLL_S)
            if message is not None and message.loss is not None:
                self._metrics.training_restarts.inc()
                _log.warning("ranks lost", job=job["id"], reason=message.loss)
            elif message is not None and message.phase is not None:
                self._trace.phase(message.phase)
                self._tend(job, None if message.step is None else {"phase": message.step})
            elif message is not None:
                last = message
                self._metrics.training_ranks.set(message.ranks)
                self._metrics.training_wait_seconds.inc(message.wait_seconds)
                for kind, n_bytes in message.sent.items():
                    self._metrics.training_bytes_moved.labels(kind).inc(n_bytes)
                self._tend(job, message.job_fields())
            elif process.has_ended:
                break
            else:
                self._tend(job)
        if last.outcome is None:
            raise RuntimeError(f"the trainer died: {process.last_words()}")
        return last

    # --- lists of all users

    def _list(self, job: JobFields) -> dict[str, str]:
        self._await_log(job)
        with self._lock(job, shared=True) as lock, listing(self._settings, job, lock, serves=self._serves) as process:
            last = self._watch(job, process)
        if last.outcome == "failed":
            raise _Interrupted("failed", last.error)
        metrics = msgspec.json.encode(last.metrics).decode()
        version = last.version or ""
        fields = {"progress": "1", "metrics": metrics, "version": version, "name": version_names.name_of(version)}
        return fields if last.backend is None else fields | {"backend": last.backend}

    # --- undoing

    def _undo(self, job: JobFields) -> dict[str, str]:
        self._await_log(job)
        undo = msgspec.json.decode(job["params"], type=Undo)
        with self._lock(job, shared=True) as lock:
            self._tend(job, {"phase": "comparing"})
            with planning(self._settings, job, lock) as (process, plan):
                last = self._watch(job, process)
                if last.outcome == "failed":
                    raise _Interrupted("failed", last.error)
                metrics, undoing = last.metrics, Undoing(self._stream, self._rating_log, undo, plan)
                progress = ""
                for share in () if undo.dry_run else undoing.steps():
                    was, progress = progress, f"{share:.4f}"
                    self._tend(job, None if progress == was else {"progress": progress, "phase": "writing"})
        for name, n in undoing.left_out.items():
            metrics[f"ratings_{name}"] -= n
            metrics["ratings_kept"] += n
        fields = {"progress": "1", "metrics": msgspec.json.encode(metrics).decode()}
        return fields | ({"reason": MERGED} if undoing.has_merged else {})

    # --- forgetting

    def _forget(self, job: JobFields) -> dict[str, str]:
        self._await_log(job)
        lock = self._lock(job, shared=False)
        places = Places(
            data=self._settings.data,
            redis=self._settings.root / "redis",
            log=self._rating_log,
            stream=self._stream,
            jobs=self._table,
            settle=self._settle,
        )
        self._tend(job, {"phase": "removing"})
        steps = forget(places, job["id"], job["user"], StreamId.parse(job["watermark"]))
        progress: queue.SimpleQueue[float | BaseException] = queue.SimpleQueue()

        def drain() -> None:
            """Do the steps. This thread owns the lock, because it may still write when another worker has the job."""
            try:
                with lock:
                    for share in steps:
                        if share < 1.0:
                            progress.put(share)
                progress.put(1.0)
            except BaseException as error:
                progress.put(error)

        helper("forget", drain)
        done = 0.0
        while done < 1.0:
            try:
                step = progress.get(timeout=POLL_S)
            except queue.Empty:
                self._tend(job)
                continue
            if isinstance(step, BaseException):
                raise step
            done = step
            self._tend(job, {"progress": f"{done:.4f}"})
        return {"progress": "1", "reason": REMAINS}


class Lease:
    """Renews the lease of one job in a thread of its own, as a context manager.

    The worker may wait for a slow disk or a processor for longer than a lease lasts, and the job would fail, although
    it goes on. The worker itself notices when it has lost the job.
    """

    def __init__(self, table: JobTable, job_id: str, worker: str) -> None:
        """Prepare; the thread starts with the block."""
        self._table, self._job_id, self._worker = table, job_id, worker
        self._ended = threading.Event()

    def __enter__(self) -> Lease:
        """Start to renew."""
        self._thread = helper("lease", self._run)
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(RENEW_EVERY_S):
            try:
                self._table.renew(self._job_id, self._worker)
            except Unavailable:  # Redis may come back before the lease ends
                continue


def decision(job: JobFields, last: TrainerMessage) -> tuple[bool, str | None]:
    """Whether the trained model goes live, and the reason to show."""
    promoted, reason = last.promote, last.reason
    if is_shadow(job):  # it is there to be tested, and never answers
        promoted = True
    if job.get("force") == "1" and not promoted:
        promoted, reason = True, f"force was true: {reason}"
    if promoted and job["activate"] != "1":
        promoted, reason = False, "activate was false"
    return promoted, reason
