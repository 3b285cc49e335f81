"""`Supervisor`: the thread that takes jobs, one at a time, and starts, watches and stops whoever does the work."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import structlog

from service import live, snapshot
from service.errors import StreamUnavailable
from service.events import StreamId
from service.forget import REMAINS, forget
from service.job_table import Job, JobTable
from service.jobs import TRAIN, Jobs
from service.metrics import Metrics
from service.rating_log import RatingLog
from service.retraining import Retraining
from service.settings import Settings
from service.stream import Stream
from service.trainer import Line

NICENESS = 19  # trainings take what nobody else wants
POLL_S = 0.2
RENEW_EVERY_S = 1.0
TERMINATE_S = 5.0  # what a trainer has left to end by itself after SIGTERM
REMEMBERED_STDERR_LINES = 20

_log = structlog.get_logger(__name__)


class _Interrupted(Exception):
    """The job must not go on: cancelled, taken away, failed with an error of the trainer's, or this process stops."""

    def __init__(self, outcome: str | None, error: str | None = None) -> None:
        super().__init__(outcome)
        self.outcome, self.error = outcome, error


class Supervisor:
    """Runs trainings as processes and forgettings in a thread, under a lease that it renews."""

    def __init__(self, settings: Settings, table: JobTable, stream: Stream, log: RatingLog, metrics: Metrics) -> None:
        """Prepare; `start` starts the thread."""
        self._settings, self._table, self._stream, self._rating_log = settings, table, stream, log
        self._metrics = metrics
        self._worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._retraining = Retraining(settings, log, Jobs(table, stream, settings.data))
        self._renewed_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def start(self) -> None:
        """Start taking jobs."""
        snapshot.clean(self._settings.data / "snapshots")
        self._thread.start()

    def stop(self) -> None:
        """Stop the running job, which fails, and end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                job = self._table.claim(self._worker)
                if job is None:
                    self._retraining.submit_due()
                    self._stopping.wait(POLL_S)
                else:
                    self._work(job)
            except StreamUnavailable as error:
                _log.warning("supervisor cannot reach redis", error=str(error))
                self._stopping.wait(1.0)
            except Exception as error:  # no single job may end this thread
                _log.error("supervisor failed", error=str(error), kind=type(error).__name__)
                self._stopping.wait(1.0)

    # --- one job

    def _work(self, job: Job) -> None:
        _log.info("job started", job=job["id"], kind=job["kind"])
        try:
            outcome, fields = "succeeded", self._train(job) if job["kind"] == TRAIN else self._forget(job)
        except _Interrupted as interrupted:
            if interrupted.outcome is None:
                _log.warning("job was taken away", job=job["id"])
                return
            outcome, fields = interrupted.outcome, {"error": interrupted.error} if interrupted.error else {}
        except Exception as error:
            outcome, fields = "failed", {"error": f"{type(error).__name__}: {error}"}
        self._table.finish(job["id"], self._worker, outcome, fields)  # type: ignore[arg-type]
        self._metrics.jobs.labels(outcome).inc()
        _log.info("job finished", job=job["id"], state=outcome, **fields)

    def _tend(self, job: Job, fields: dict[str, str] | None = None) -> None:
        """Renew the lease and publish `fields`.

        Raises:
            _Interrupted: the job must stop.
        """
        if self._stopping.is_set():
            raise _Interrupted("failed", "the worker was stopped")
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
        watermark = StreamId.parse(job["watermark"])
        while self._rating_log.last_id() < watermark:
            self._tend(job)
            with contextlib.suppress(StreamUnavailable):
                self._stream.request_commit(watermark)
            self._stopping.wait(POLL_S / 4)

    # --- training

    def _train(self, job: Job) -> dict[str, str]:
        self._await_log(job)
        with _trainer(self._settings, job) as process:
            last = self._watch(job, process)
        if last.outcome == "failed":
            raise _Interrupted("failed", last.error)
        promoted, reason = last.promote, last.reason
        if job.get("force") == "1" and not promoted:
            promoted, reason = True, f"force was true: {reason}"
        if promoted and job["activate"] != "1":
            promoted, reason = False, "activate was false"
        if promoted:
            live.set_version(self._settings.data, job["algorithm"], last.version or "")
        self._prune(job["algorithm"])
        fields = {
            "progress": "1",
            "version": last.version or "",
            "promoted": str(int(promoted)),
            "metrics": msgspec.json.encode(last.metrics).decode(),
            "calibration": msgspec.json.encode(last.calibration).decode(),
            "trials": msgspec.json.encode(last.trials).decode(),
        }
        return fields | _given(reason=reason, backend=last.backend)

    def _watch(self, job: Job, process: _Process) -> Line:
        """Publish what the trainer tells until it ends; its last line."""
        last = Line()
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

    def _prune(self, name: str) -> None:
        version = live.read(self._settings.data).get(name)
        if version is not None:
            for gone in snapshot.prune(self._settings.data / "snapshots", name, version):
                _log.info("snapshot removed", version=gone)

    # --- forgetting

    def _forget(self, job: Job) -> dict[str, str]:
        self._await_log(job)
        self._tend(job, {"user": ""})  # before the file of Redis is rewritten: the job would keep the name alive
        position = StreamId.parse(job["watermark"])
        steps = forget(self._settings.data, self._rating_log, self._stream, job["user"], position)
        progress: queue.SimpleQueue[float | BaseException] = queue.SimpleQueue()
        threading.Thread(target=_drain, args=(steps, progress), name="forget", daemon=True).start()
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


def _given(**fields: str | None) -> dict[str, str]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _drain(steps: Iterator[float], progress: queue.SimpleQueue[float | BaseException]) -> None:
    try:
        for done in steps:
            progress.put(done)
    except BaseException as error:
        progress.put(error)


class _Process:
    """A trainer process and what it says."""

    def __init__(self, command: list[str]) -> None:
        # A group of processes, not a session: kernels with autogroups share the processor out between sessions first,
        # where niceness does not count; a training then took a quarter of a core from Redis and the service.
        self._process = subprocess.Popen(  # noqa: S603 (our own module, no shell)
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        )
        os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)
        self._lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self._errors: list[str] = []
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_lines, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def next_line(self, timeout_s: float) -> Line | None:
        """The next line, None if there is none in time."""
        with contextlib.suppress(queue.Empty):
            return self._lines.get(timeout=timeout_s)
        return None

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone and every line has been taken."""
        gone = self._process.poll() is not None and not any(reader.is_alive() for reader in self._readers)
        return gone and self._lines.empty()

    def last_words(self) -> str:
        """How it ended, and the end of what it wrote to stderr."""
        code = self._process.returncode
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        return f"{how}: {self._errors[-1]}" if self._errors else how

    def end(self) -> None:
        """SIGTERM, and SIGKILL if it is still there after five seconds."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(TERMINATE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for reader in self._readers:
            reader.join()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 (tells the type checker)
        with self._process.stdout as pipe:
            for raw in pipe:
                self._lines.put(msgspec.json.decode(raw, type=Line))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101 (tells the type checker)
        with self._process.stderr as pipe:
            for raw in pipe:
                self._errors = [*self._errors[1 - REMEMBERED_STDERR_LINES :], raw.decode(errors="replace").rstrip()]


@contextlib.contextmanager
def _trainer(settings: Settings, job: Job) -> Iterator[_Process]:
    options: dict[str, Any] = {
        "data": settings.data,
        "job": job["id"],
        "algorithm": job["algorithm"],
        "params": job["params"],
        "values": settings.values,
        "watermark": job["watermark"],
        "backend": settings.backend,
    }
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    arguments += ["--tune"] * (job.get("tune") == "1")
    process = _Process([sys.executable, "-m", "service.trainer", *arguments])
    try:
        yield process
    finally:
        process.end()
