"""`Scheduler`: the thread that submits the jobs of the setting `schedules`, in the process that supervises jobs."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable

import structlog

from gpu.base.errors import InvalidInput
from service.base.backoff import Backoff
from service.base.errors import ServiceError, Unavailable
from service.base.threads import PartThread, unheard
from service.extras.schedules.records import Record, Records
from service.jobs.jobs import Due, Jobs
from service.jobs.schedule import Retraining
from service.settings.schedules import Schedule
from service.settings.settings import Settings
from service.storage.log.rating_log import RatingLog

POLL_S = 5.0  # seconds between two looks at the clock
LATE_S = 3600  # seconds after which a time is missed for good
MISSED = "missed: no process that trains, or no Redis, was there within an hour"

_log = structlog.get_logger(__name__)


class Scheduler:
    """Gives each time of each schedule one job, however many processes share the data set.

    The id of the job follows from line and time, and a job that is there already stays. So two processes that both find
    a time due submit one job, and a process that dies between the job and its record leaves nothing to do twice.
    """

    def __init__(
        self,
        settings: Settings,
        jobs: Jobs,
        records: Records,
        on_failure: Callable[[BaseException], None] = unheard,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Prepare; `start` starts the thread. `now`: Unix seconds."""
        self._jobs, self._records, self._now = jobs, records, now
        self._retraining = Retraining(settings, RatingLog(settings.data / "ratings"), jobs)
        self._stopping = threading.Event()
        self._thread = PartThread("schedules", self._run, on_failure)

    def start(self) -> None:
        """Start to submit jobs."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the next process goes on."""
        self._stopping.set()
        self._thread.join()
        self._records.close()

    def step(self) -> None:
        """Submit the jobs of all times that are due. Raises `Unavailable`: call it again, it does nothing twice."""
        now_s, records = int(self._now()), self._records.all()
        for schedule in self._records.schedules:
            record, due_s = records.get(schedule.line), schedule.last(now_s)
            if record is None or record.upto_s > now_s + LATE_S:  # a new line; or the clock was wrong, and is no more
                self._records.put(schedule.line, Record(now_s))
            elif due_s > record.upto_s:
                record = Record(due_s, due_s)
                if now_s - due_s > LATE_S:
                    record.error = MISSED
                else:
                    try:
                        record.job = self._submit(schedule, due_s)
                    except Unavailable:
                        raise
                    except (ServiceError, InvalidInput) as error:
                        record.error = str(error)
                if record.error is not None:
                    _log.error("a schedule has no job", schedule=schedule.line, error=record.error)
                self._records.put(schedule.line, record)

    def _submit(self, schedule: Schedule, due_s: int) -> str:
        """The id of the job for this time; that of a training of the model that waits or runs, if there is one."""
        due = Due(hashlib.sha256(f"{schedule.line} {due_s}".encode()).hexdigest()[:12], schedule.line)
        if schedule.action == "lists":
            return self._jobs.submit_scenario(schedule.name, due).id
        if present := self._jobs.trainings(schedule.name):
            return present[0]
        return self._jobs.submit_training(self._retraining.last(schedule.name).again(schedule.name), due).id

    def _run(self) -> None:
        backoff = Backoff("the schedules", self._stopping)
        while not self._stopping.is_set():
            try:
                self.step()
                backoff.worked()
                self._stopping.wait(POLL_S)
            except Exception as error:  # Redis is gone, or an unforeseen error: neither may end this thread
                backoff.failed(error)
