"""Schedules by a clock that the tests set. None of them waits for a time of day."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from service.extras.schedules.records import Record, Records
from service.extras.schedules.scheduler import MISSED, Scheduler
from service.jobs.jobs import Job, Jobs
from service.jobs.supervisor import Supervisor
from service.jobs.table import BEGUN, JobTable, now_ms
from service.jobs.training import Training
from service.settings.settings import Settings
from service.storage.errors import StreamUnavailable
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot
from service.storage.streams.redis_server import RedisServer
from service.storage.streams.stream import Stream
from service.telemetry.metrics import Metrics
from tests.service.settings.test_schedules import at
from tests.service.storage.snapshots.test_snapshot import ITEMS, USERS, a_model
from tests.service.waiting import eventually

NIGHTLY, WEEKLY = "0 3 * * * train als", "30 5 * * 1 lists weekly"
EVENING = at("2026-11-26 20:00:00")
NIGHT, NEXT_NIGHT = at("2026-11-27 03:00:00"), at("2026-11-28 03:00:00")
MONDAY = at("2026-11-30 05:30:00")


class Worker:
    """What the process that supervises jobs has for schedules, with a clock."""

    def __init__(self, settings: Settings, stream: Stream) -> None:
        assert settings.redis is not None
        self.now_s = float(EVENING)
        self.table, self.records = JobTable(settings.redis, settings.keyspace), Records(settings)
        self.jobs = Jobs(self.table, stream, settings.data)
        self._scheduler = Scheduler(settings, self.jobs, self.records, now=lambda: self.now_s)

    def at(self, now_s: float) -> list[Job]:
        """Look at the clock twice at this time; returns all jobs, the oldest first."""
        self.now_s = now_s
        self._scheduler.step()
        self._scheduler.step()
        return self.jobs.list()[::-1]

    def record(self, line: str = NIGHTLY) -> Record:
        return self.records.all()[line]

    def close(self) -> None:
        self.records.close()
        self.table.close()


@pytest.fixture
def start(redis_url: str, stream: Stream, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """start(schedules): one more worker that has looked at the clock, by default in the evening."""
    started: list[Worker] = []

    def start(
        schedules: str = NIGHTLY, *, data_set: str = "", redis: str = redis_url, first_look_s: int = EVENING
    ) -> Worker:
        settings = Settings(data=tmp_path, redis=redis, schedules=schedules, data_sets=("shop",))
        started.append(Worker(settings.of(data_set) if data_set else settings, stream))
        started[-1].at(first_look_s)
        return started[-1]

    yield start
    for worker in started:
        worker.close()


def end_all(worker: Worker) -> None:
    while (job := worker.table.claim("w")) is not None:
        assert worker.table.finish(job["id"], "w", "succeeded", {})


def test_each_time_has_one_job(start: Callable[..., Worker]) -> None:
    worker = start(f"{NIGHTLY}; {WEEKLY}")
    assert worker.at(NIGHT - 1) == []
    (job,) = worker.at(NIGHT)
    assert (job.kind, job.algorithm, job.name, job.schedule) == ("train", "als", "als", NIGHTLY)
    assert worker.record() == Record(NIGHT, NIGHT, job.id)
    end_all(worker)
    assert len(worker.at(NIGHT + 60)) == len(worker.at(NEXT_NIGHT - 1)) == 1
    assert len(worker.at(NEXT_NIGHT + 0.5)) == 2
    end_all(worker)
    lists = worker.at(MONDAY)[-1]
    assert (lists.kind, lists.params, lists.schedule) == ("lists", {"scenario": "weekly"}, WEEKLY)
    assert worker.record(WEEKLY).job == lists.id


def test_of_two_workers_one_submits(start: Callable[..., Worker]) -> None:
    workers = [start("* * * * * lists front") for _ in range(2)]
    barrier = Barrier(2)

    def look(worker: Worker, minute: int) -> None:
        barrier.wait()
        worker.at(EVENING + 60 * minute)

    with ThreadPoolExecutor(2) as pool:
        for minute in range(1, 21):
            list(pool.map(look, workers, [minute] * 2))
            assert len(workers[0].jobs.list()) == minute
            end_all(workers[0])


def test_a_worker_that_dies_before_it_notes_the_job_leaves_nothing_to_do_twice(start: Callable[..., Worker]) -> None:
    worker = start()
    before = worker.record()
    (job,) = worker.at(NIGHT)
    end_all(worker)
    worker.records.put(NIGHTLY, before)
    (same,) = start().at(NIGHT + 20)
    assert (same.id, same.state) == (job.id, "succeeded")
    assert worker.record().job == job.id


def test_a_time_is_made_up_within_an_hour(start: Callable[..., Worker]) -> None:
    worker = start()
    assert len(worker.at(NIGHT + 3600)) == 1
    end_all(worker)
    assert len(worker.at(NEXT_NIGHT + 3601)) == 1
    assert worker.record() == Record(NEXT_NIGHT, NEXT_NIGHT, error=MISSED)
    assert len(worker.at(NEXT_NIGHT + 86_400)) == 2, "only the last time counts, and the next one has its job"


def test_a_line_that_is_new_waits_for_its_next_time(start: Callable[..., Worker]) -> None:
    worker = start(first_look_s=NIGHT + 60)
    assert worker.at(NIGHT + 120) == []
    assert worker.record() == Record(NIGHT + 60)
    assert len(worker.at(NEXT_NIGHT)) == 1


def test_a_clock_that_goes_back_runs_nothing_twice(start: Callable[..., Worker]) -> None:
    worker = start("0 * * * * lists front")
    assert len(worker.at(NIGHT)) == 1
    end_all(worker)
    assert len(worker.at(NIGHT - 600)) == len(worker.at(NIGHT)) == len(worker.at(NIGHT + 600)) == 1
    assert len(worker.at(NIGHT - 2 * 3600)) == len(worker.at(NIGHT)) == 1, "by more than the hour of late jobs, too"
    assert len(worker.at(NIGHT + 3600)) == 2
    end_all(worker)
    assert len(worker.at(at("2099-01-01 03:00:00"))) == 3
    end_all(worker)
    assert len(worker.at(NIGHT + 3700)) == 3
    assert len(worker.at(NIGHT + 7200)) == 4, "a clock that was wrong once does not end the schedule"


def test_a_training_that_waits_or_runs_is_the_one(start: Callable[..., Worker]) -> None:
    worker = start()
    mine = worker.jobs.submit_training(Training.of("als", {"n_factors": 8}))
    assert [job.id for job in worker.at(NIGHT)] == [mine.id]
    assert worker.table.claim("w") is not None
    assert [job.id for job in worker.at(NEXT_NIGHT)] == [mine.id]
    assert worker.record() == Record(NEXT_NIGHT, NEXT_NIGHT, mine.id)
    assert worker.table.finish(mine.id, "w", "succeeded", {})
    assert len(worker.at(NEXT_NIGHT + 86_400)) == 2


def test_a_model_is_trained_as_it_was_before(start: Callable[..., Worker], tmp_path: Path) -> None:
    options: Any = {"metrics": {}, "watermark": "5-1", "n_ratings": 3, "given": {"n_factors": 3}}
    version = snapshot.write(tmp_path / "snapshots", a_model(), USERS, ITEMS, **options).version
    live_versions.set_version(tmp_path, "culsh", version)
    (job,) = start("0 3 * * * train culsh").at(NIGHT)
    assert (job.algorithm, job.params) == ("culsh", {"n_factors": 3})


def test_what_cannot_be_submitted_is_told(start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARFIELD_DEFAULT_MODELS", "home,als")
    worker = start("0 3 * * * train home")
    assert worker.at(NIGHT) == []
    assert worker.record("0 3 * * * train home").last_s == NIGHT
    assert "expected one of" in (worker.record("0 3 * * * train home").error or "")


def test_redis_may_be_gone_for_less_than_an_hour(start: Callable[..., Worker], tmp_path: Path, redis_url: str) -> None:
    server = RedisServer(tmp_path / "server")
    server.start()
    try:
        worker = start(redis=server.url)
        server.stop()
        with pytest.raises(StreamUnavailable):
            worker.at(NIGHT)
        server = RedisServer(tmp_path / "server")
        server.start()
        (job,) = worker.at(NIGHT + 1800)
        assert worker.record() == Record(NIGHT, NIGHT, job.id)
    finally:
        server.stop()


def test_data_sets_have_schedules_and_jobs_of_their_own(start: Callable[..., Worker]) -> None:
    default, shop = start(), start(data_set="shop")
    assert len(default.at(NIGHT)) == 1
    assert shop.jobs.list() == []
    assert shop.record() == Record(EVENING)
    assert len(shop.at(NIGHT)) == 1


def test_a_quota_that_is_used_up_fails_the_job(start: Callable[..., Worker], stream: Stream, tmp_path: Path) -> None:
    worker = start()
    begun = {"kind": "train", "algorithm": "ease", BEGUN: str(now_ms() - 40 * 60_000)}
    worker.table.submit("long", begun)
    end_all(worker)
    job = worker.at(NIGHT)[-1]
    settings = Settings(data=tmp_path, backend="host", quota_training_minutes=30)
    supervisor = Supervisor(settings, worker.table, stream, RatingLog(tmp_path / "ratings"), Metrics())
    supervisor.start()
    try:
        eventually(lambda: worker.jobs.get(job.id).state == "failed")
        assert "trainings have taken their quota of 30 minutes" in (worker.jobs.get(job.id).error or "")
    finally:
        supervisor.stop()


def test_the_list_shows_what_was_and_what_comes(start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    worker = start(f"{NIGHTLY}; {WEEKLY}")
    (job,) = worker.at(NIGHT)
    monkeypatch.setattr("time.time", lambda: NIGHT + 60.0)
    nightly, weekly = worker.records.listed().schedules
    assert (nightly.schedule, nightly.next_ms, nightly.last_ms) == (NIGHTLY, 1000 * NEXT_NIGHT, 1000 * NIGHT)
    assert (nightly.job, nightly.error) == (job.id, None)
    assert (weekly.schedule, weekly.next_ms, weekly.last_ms, weekly.job) == (WEEKLY, 1000 * MONDAY, None, None)
