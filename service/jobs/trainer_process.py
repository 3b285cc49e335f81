"""`TrainerProcess`: a trainer process as its supervisor sees it. It ends when the supervisor ends, even by SIGKILL."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from service.base import threads, tuning
from service.jobs import gpu_order
from service.jobs.last_words import LastWords
from service.jobs.table import QUERY, SCENARIO, JobFields, name_of
from service.jobs.trainer_messages import TrainerMessage
from service.settings.settings import Settings
from service.storage import exclusion
from service.storage.files import FileLock

NICENESS = 19  # lowest priority: a training uses idle processor time only
WAITED_FOR = 10  # of a short job that someone waits for: at 19 it hardly begins beside busy processes
TERMINATE_S = 3.0  # seconds between SIGTERM and SIGKILL
TrainerModule = Callable[[Settings, bool], list[str]]


class TrainerProcess:
    """A trainer process, its messages and the end of its stderr.

    Its standard input is a pipe to which nothing is written: when the pipe closes, the supervisor is gone.
    """

    def __init__(
        self,
        command: list[str],
        lock: FileLock,
        environment: dict[str, str] | None = None,
        niceness: int = NICENESS,
    ) -> None:
        """Start it; it inherits `lock`. `environment`: default: that of this process."""
        # A process group, not a session: Linux with autogroups first divides the processor among sessions, without
        # regard to niceness. A training in a session took a quarter of a core from Redis and the service.
        self._process = subprocess.Popen(  # noqa: S603 (our own module, no shell)
            tuning.as_victim(command, tuning.TRAINER_OOM_SCORE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            pass_fds=(lock.descriptor,),
            env=environment,
        )
        os.setpriority(os.PRIO_PROCESS, self._process.pid, niceness)
        self._messages: queue.SimpleQueue[TrainerMessage] = queue.SimpleQueue()
        assert self._process.stderr is not None  # noqa: S101 (tells the type checker)
        self._last_words = LastWords(self._process.stderr, "trainer-stderr")
        self._readers = [threads.helper("trainer-pipe", self._read_messages), self._last_words.thread]

    def next_message(self, timeout_s: float) -> TrainerMessage | None:
        """The next message, or None if none comes in time."""
        with contextlib.suppress(queue.Empty):
            return self._messages.get(timeout=timeout_s)
        return None

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone and every message has been read."""
        is_gone = self._process.poll() is not None and not any(reader.is_alive() for reader in self._readers)
        return is_gone and self._messages.empty()

    def last_words(self) -> str:
        """How the process ended, and the last line of its stderr."""
        return self._last_words.after(self._process.returncode)

    def end(self) -> None:
        """Send SIGTERM, and SIGKILL if the process is still there after three seconds."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(TERMINATE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        assert self._process.stdin is not None  # noqa: S101 (tells the type checker)
        self._process.stdin.close()
        for reader in self._readers:
            reader.join()

    def _read_messages(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 (tells the type checker)
        with self._process.stdout as pipe:
            for raw in pipe:
                self._messages.put(msgspec.json.decode(raw, type=TrainerMessage))


@contextlib.contextmanager
def listing(settings: Settings, job: JobFields, lock: FileLock, *, serves: bool) -> Iterator[TrainerProcess]:
    """Run `service.jobs.lister` for `job`; the rest is that of `training`."""
    work = settings.data / exclusion.WORK / job["id"]
    query = work / "query.json"  # which may be longer than an argument
    options: dict[str, Any] = {
        "data": settings.data,
        "job": job["id"],
        "default-models": ",".join(settings.default_models),
        "watermark": job["watermark"],
        **({"scenario": job[SCENARIO]} if SCENARIO in job else {"query": query, "model": job["name"]}),
        "events": settings.events,
        "half-lives": settings.half_lives,
        "repeat": settings.repeat,
        "seen-types": ",".join(settings.seen_types),
        "backend": settings.backend,
        **({"user-filter": job["user_filter"]} if "user_filter" in job else {}),
    }
    gpus = gpu_order.serving_last(settings) if serves else ()
    try:
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The parameters are those of a job that an older version has queued.
        query.write_bytes(job.get(QUERY, job["params"]).encode())
        with running(["service.jobs.lister"], options, lock, gpus) as process:
            yield process
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def planning(settings: Settings, job: JobFields, lock: FileLock) -> Iterator[tuple[TrainerProcess, Path]]:
    """Run `service.jobs.undo_plan` for `job`, which writes the file that comes with it; see `training`."""
    work = settings.data / exclusion.WORK / job["id"]
    plan = work / "plan.ndjson"
    options = {"data": settings.data, "undo": job["params"], "watermark": job["watermark"], "out": plan}
    try:
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        with running(["service.jobs.undo_plan"], options, lock, (), WAITED_FOR) as process:
            yield process, plan
    finally:
        shutil.rmtree(work, ignore_errors=True)


def trainer_alone(settings: Settings, shares_gpu: bool) -> list[str]:
    """The module of a trainer that is one process."""
    return ["service.jobs.trainer"]


@contextlib.contextmanager
def training(
    settings: Settings, job: JobFields, lock: FileLock, *, serves: bool, trainer: TrainerModule = trainer_alone
) -> Iterator[TrainerProcess]:
    """Run a trainer for `job`; it has ended when the context ends.

    Args:
        settings: of the data set.
        job: what to train.
        lock: which the trainer inherits.
        serves: whether models answer on this machine, from the first GPU if they use one; trainings use the others
            first.
        trainer: the module to run, with arguments of its own before those of `service.jobs.trainer`, by the settings
            and by whether a service answers from the last GPU that the trainer sees.
    """
    options: dict[str, Any] = {
        "data": settings.data,
        "job": job["id"],
        "algorithm": job["algorithm"],
        "name": name_of(job),
        "params": job["params"],
        "values": settings.values,
        "events": settings.events,
        "half-lives": settings.half_lives,
        "watermark": job["watermark"],
        "backend": settings.backend,
    }
    gpus = gpu_order.serving_last(settings) if serves else ()
    module = [*trainer(settings, bool(gpus)), *["--tune"] * (job.get("tune") == "1")]
    try:
        with running(module, options, lock, gpus) as process:
            yield process
    finally:  # a trainer that was killed has left the ratings and factors of its team
        shutil.rmtree(settings.data / exclusion.WORK / job["id"], ignore_errors=True)


@contextlib.contextmanager
def running(
    module: list[str], options: Mapping[str, Any], lock: FileLock, gpus: tuple[str, ...], niceness: int = NICENESS
) -> Iterator[TrainerProcess]:
    """Run a module with these options on `gpus`; it has ended when the context ends."""
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    command = [sys.executable, "-m", *module, *arguments]
    process = TrainerProcess(command, lock, gpu_order.environment(gpus), niceness)
    try:
        yield process
    finally:
        process.end()
