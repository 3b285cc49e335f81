"""`Supervisor`: the thread that takes jobs, one at a time, and starts, watches and stops whoever does the work."""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import structlog

from service.backoff import Backoff
from service.errors import StreamUnavailable
from service.jobs.forget import REMAINS, Places, forget, without_forgotten
from service.jobs.jobs import TRAIN, Jobs
from service.jobs.schedule import Retraining
from service.jobs.table import Job, JobTable
from service.jobs.trainer import TrainerMessage
from service.jobs.trainer_process import TrainerProcess, training
from service.metrics import Metrics
from service.settings import Settings
from service.storage import exclusion, live_versions
from service.storage.events import StreamId
from service.storage.files import FileLock
from service.storage.rating_log import RatingLog
from service.storage.stream import Stream
from service.threads import PartThread, helper, unheard

POLL_S = 0.2
RENEW_EVERY_S = 1.0
STOPPED = "the worker was stopped"

_log = structlog.get_logger(__name__)


class _Interrupted(Exception):
    """The job must not go on: cancelled, taken away, failed with an error of the trainer's, or this process stops."""

    def __init__(self, outcome: str | None, error: str | None = None) -> None:
        super().__init__(outcome)
        self.outcome, self.error = outcome, error


class Supervisor:
    """Runs trainings as processes and forgettings in a thread, under a lease that it renews."""

    def __init__(
        self,
        settings: Settings,
        table: JobTable,
        stream: Stream,
        log: RatingLog,
        metrics: Metrics,
        on_failure: Callable[[BaseException], None] = unheard,
    ) -> None:
        """Prepare; `start` starts the thread. `on_failure`: see `PartThread`."""
        self._settings, self._table, self._stream, self._rating_log = settings, table, stream, log
        self._metrics = metrics
        self._worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._retraining = Retraining(settings, log, Jobs(table, stream, settings.data))
        self._renewed_s = 0.0
        self._stopping = threading.Event()
        self._thread = PartThread("supervisor", self._run, on_failure)

    def start(self) -> None:
        """Start taking jobs."""
        try:
            exclusion.clean(self._settings.data)
        except OSError as error:  # costs room on the disk only; a forgetting will insist
            _log.warning("leftovers of snapshots cannot be removed", error=str(error))
        self._thread.start()

    def stop(self) -> None:
        """Stop the running job and end: a training fails, the next worker goes on with a forgetting."""
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
                    self._stopping.wait(POLL_S)
                else:
                    self._work(job)
            except Exception as error:  # Redis is away, or a job failed in a new way: none may end this thread
                backoff.failed(error)

    # --- one job

    def _work(self, job: Job) -> None:
        _log.info("job started", job=job["id"], kind=job["kind"])
        try:
            outcome, fields = "succeeded", self._train(job) if job["kind"] == TRAIN else self._forget(job)
        except _Interrupted as interrupted:
            if interrupted.outcome is None:
                _log.warning("job was taken away", job=job["id"])
                return
            if interrupted.error == STOPPED and job["kind"] != TRAIN:
                self._table.release(job["id"], self._worker)
                return
            outcome, fields = interrupted.outcome, {"error": interrupted.error} if interrupted.error else {}
        except Exception as error:
            outcome, fields = "failed", {"error": f"{type(error).__name__}: {error}"}
        if not self._table.finish(job["id"], self._worker, outcome, fields):  # type: ignore[arg-type]
            _log.warning("job was taken away", job=job["id"], **fields)
            return
        self._metrics.jobs.labels(outcome).inc()
        _log.info("job finished", job=job["id"], state=outcome, **fields)

    def _tend(self, job: Job, fields: dict[str, str] | None = None) -> None:
        """Renew the lease and publish `fields`.

        Raises:
            _Interrupted: the job must stop.
        """
        if self._stopping.is_set():
            raise _Interrupted("failed", STOPPED)
        if not fields and time.monotonic() - self._renewed_s < RENEW_EVERY_S:
            return
        with contextlib.suppress(StreamUnavailable):  # a short absence of Redis must not cost hours of training
            is_ours = self._table.renew(job["id"], self._worker, fields)
            self._renewed_s = time.monotonic()
            if not is_ours:
                raise _Interrupted(None)
            if "cancel" in self._table.get(job["id"]):
                raise _Interrupted("cancelled")

    def _await_log(self, job: Job) -> None:
        """Wait until the rating log has everything up to the job's watermark."""
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

    def _train(self, job: Job) -> dict[str, str]:
        self._await_log(job)
        with self._lock(job, shared=True) as lock:
            with training(self._settings, job, lock) as process:
                last = self._watch(job, process)
            if last.outcome == "failed":
                raise _Interrupted("failed", last.error)
            version = without_forgotten(self._settings.data, self._rating_log, last.version or "")
            promoted, reason = _decision(job, last)
            if promoted:
                live_versions.activate(self._settings.data, job["algorithm"], version)
            for gone in live_versions.prune(self._settings.data, job["algorithm"]):
                _log.info("snapshot removed", version=gone)
        fields = {
            "progress": "1",
            "version": version,
            "promoted": str(int(promoted)),
            "metrics": msgspec.json.encode(last.metrics).decode(),
            "calibration": msgspec.json.encode(last.calibration).decode(),
            "trials": msgspec.json.encode(last.trials).decode(),
        }
        return fields | _given(reason=reason, backend=last.backend)

    def _lock(self, job: Job, *, shared: bool) -> FileLock:
        """The lock by which training and forgetting exclude each other, waited for as long as the job is ours."""
        while (lock := exclusion.try_take(self._settings.data, shared=shared)) is None:
            self._tend(job)
            self._stopping.wait(POLL_S)
        return lock

    def _watch(self, job: Job, process: TrainerProcess) -> TrainerMessage:
        """Publish what the trainer tells until it ends; its last line."""
        last = TrainerMessage()
        while True:
            line = process.next_line(POLL_S)
            if line is not None:
                last = line
                metrics = msgspec.json.encode(line.metrics).decode()
                self._tend(job, {"progress": f"{line.progress:.4f}", "metrics": metrics} | _given(backend=line.backend))
            elif process.has_ended:
                break
            else:
                self._tend(job)
        if last.outcome is None:
            raise RuntimeError(f"the trainer died: {process.last_words()}")
        return last

    # --- forgetting

    def _forget(self, job: Job) -> dict[str, str]:
        self._await_log(job)
        lock = self._lock(job, shared=False)
        places = Places(self._settings.data, self._rating_log, self._stream, self._table)
        steps = forget(places, job["id"], job["user"], StreamId.parse(job["watermark"]))
        progress: queue.SimpleQueue[float | BaseException] = queue.SimpleQueue()
        helper("forget", functools.partial(_drain, steps, progress, lock))
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


def _decision(job: Job, last: TrainerMessage) -> tuple[bool, str | None]:
    """Whether what was trained goes live, and what there is to say about it."""
    promoted, reason = last.promote, last.reason
    if job.get("force") == "1" and not promoted:
        promoted, reason = True, f"force was true: {reason}"
    if promoted and job["activate"] != "1":
        promoted, reason = False, "activate was false"
    return promoted, reason


def _given(**fields: str | None) -> dict[str, str]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _drain(steps: Iterator[float], progress: queue.SimpleQueue[float | BaseException], lock: FileLock) -> None:
    """Do the steps. The lock is this thread's: its job may be taken away while it still writes."""
    try:
        with lock:
            for done in steps:
                if done < 1.0:
                    progress.put(done)
        progress.put(1.0)
    except BaseException as error:
        progress.put(error)
