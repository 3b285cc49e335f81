from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service import live, snapshot
from service.events import Entry, RatingEvent, StreamId
from service.job_table import JobTable
from service.jobs import Jobs
from service.rating_log import RatingLog
from service.retraining import Retraining
from service.settings import Settings
from service.stream import Stream
from tests.service.logs import commit
from tests.service.test_snapshot import ITEMS, USERS, a_model


@pytest.fixture
def jobs(redis_url: str, stream: Stream, tmp_path: Path) -> Iterator[Jobs]:
    table = JobTable(redis_url)
    yield Jobs(table, stream, tmp_path)
    table.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.retraining.CHECK_EVERY_S", 0.0)


def rate(log: RatingLog, ms: int, n_ratings: int) -> None:
    commit(log, [Entry(StreamId(ms, 0), "rating", [RatingEvent("u", f"i{n}", 1.0, 0.0) for n in range(n_ratings)])])


def live_since(data: Path, hours_ago: float, watermark: str) -> None:
    text = time.strftime(snapshot.TIME_FORMAT, time.gmtime(time.time() - hours_ago * 3600))
    version = snapshot.new_version("culsh", text)
    snapshot.write(data / "snapshots", a_model(), USERS, ITEMS, metrics={}, watermark=watermark, version=version)
    live.set_version(data, "culsh", version)


def submitted(settings: Settings, log: RatingLog, jobs: Jobs) -> list[str | None]:
    retraining = Retraining(settings, log, jobs)
    for _ in range(3):
        retraining.submit_due()
    return [job.algorithm for job in jobs.list()]


def test_nothing_happens_by_default(tmp_path: Path, log: RatingLog, jobs: Jobs) -> None:
    rate(log, 10, 5)
    assert submitted(Settings(data=tmp_path), log, jobs) == []


def test_so_many_ratings_behind_the_watermark(tmp_path: Path, log: RatingLog, jobs: Jobs) -> None:
    live_since(tmp_path, hours_ago=0, watermark="10-0")
    settings = Settings(data=tmp_path, retrain_every_ratings=5)
    rate(log, 10, 50)
    rate(log, 11, 4)
    assert submitted(settings, log, jobs) == []
    rate(log, 12, 1)
    assert submitted(settings, log, jobs) == ["culsh"]
    assert jobs.list()[0].params["n_factors"] == 3  # those of the live model


def test_so_many_hours_if_there_is_anything_new(tmp_path: Path, log: RatingLog, jobs: Jobs) -> None:
    live_since(tmp_path, hours_ago=3, watermark="10-0")
    rate(log, 10, 5)
    assert submitted(Settings(data=tmp_path, retrain_every_hours=2), log, jobs) == []
    rate(log, 11, 1)
    assert submitted(Settings(data=tmp_path, retrain_every_hours=4), log, jobs) == []
    assert submitted(Settings(data=tmp_path, retrain_every_hours=2), log, jobs) == ["culsh"]


def test_the_first_default_model_if_none_is_live(tmp_path: Path, log: RatingLog, jobs: Jobs) -> None:
    rate(log, 10, 5)
    settings = Settings(data=tmp_path, retrain_every_ratings=5, default_models=["sgd", "culsh"])
    assert submitted(settings, log, jobs) == ["sgd"]
