import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import structlog

from gpu.algorithms import params_for
from gpu.data.model import Model
from gpu.data.signals import Calibration
from service.jobs.jobs import Jobs
from service.jobs.schedule import Retraining
from service.jobs.table import JobTable
from service.settings.settings import Settings
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot, version_names
from service.storage.streams.stream import Stream
from tests.service.logs import commit
from tests.service.storage.snapshots.test_snapshot import ITEMS, USERS, a_model


@pytest.fixture
def jobs(redis_url: str, stream: Stream, tmp_path: Path) -> Iterator[Jobs]:
    table = JobTable(redis_url)
    yield Jobs(table, stream, tmp_path)
    table.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.jobs.schedule.CHECK_EVERY_S", 0.0)


def rate(log: RatingLog, ms: int, n_ratings: int) -> None:
    commit(log, [Entry(StreamId(ms, 0), "rating", [RatingEvent("u", f"i{n}", 1.0, 0.0) for n in range(n_ratings)])])


def live_since(data: Path, hours_ago: float, watermark: str, n_ratings: int | None = 10_000) -> None:
    text = time.strftime(version_names.TIME_FORMAT, time.gmtime(time.time() - hours_ago * 3600))
    version = version_names.new_version("culsh", text)
    snapshot.write(
        data / "snapshots", a_model(), USERS, ITEMS,
        metrics={}, watermark=watermark, n_ratings=n_ratings, version=version,
    )  # fmt: skip
    live_versions.set_version(data, "culsh", version)


def submitted(settings: Settings, log: RatingLog, jobs: Jobs) -> list[str | None]:
    retraining = Retraining(settings, log, jobs)
    for _ in range(3):
        retraining.submit_due()
    return [job.algorithm for job in jobs.list()]


def test_what_was_ended_is_not_trained_again(tmp_path: Path, log: RatingLog, jobs: Jobs) -> None:
    live_since(tmp_path, hours_ago=9, watermark="10-0", n_ratings=100)
    rate(log, 11, 5000)
    live_versions.end(tmp_path, "culsh")
    settings = Settings(data=tmp_path, retrain_every_hours=1, retrain_every_ratings=1)
    assert submitted(settings, log, jobs) == []
    live_since(tmp_path, hours_ago=8, watermark="10-0", n_ratings=100)
    assert submitted(settings, log, jobs) == ["culsh"]


def test_nothing_is_trained_that_nobody_asked_for(tmp_path: Path, log: RatingLog, jobs: Jobs) -> None:
    rate(log, 10, 5000)
    assert submitted(Settings(data=tmp_path), log, jobs) == []


@pytest.mark.parametrize(("n_ratings", "n_new"), [(100, 1000), (5000, 1000), (8000, 1600)])
def test_a_share_of_new_ratings(tmp_path: Path, log: RatingLog, jobs: Jobs, n_ratings: int, n_new: int) -> None:
    live_since(tmp_path, hours_ago=0, watermark="10-0", n_ratings=n_ratings)
    settings = Settings(data=tmp_path)
    rate(log, 11, n_new - 1)
    assert submitted(settings, log, jobs) == []
    rate(log, 12, 1)
    for share in (0.0, 1.0 + n_new / n_ratings):
        assert submitted(settings.model_copy(update={"retrain_share": share}), log, jobs) == []
    assert submitted(settings, log, jobs) == ["culsh"]


def test_ratings_are_counted_as_they_come(
    tmp_path: Path, log: RatingLog, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_since(tmp_path, hours_ago=0, watermark="10-0", n_ratings=100)
    retraining, read, rows = Retraining(Settings(data=tmp_path), log, jobs), log.read, []

    def reading(after: StreamId, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in read(after, columns=columns):
            rows.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(log, "read", reading)
    for ms in range(11, 15):
        assert jobs.list() == []
        rate(log, ms, 250)
        retraining.submit_due()
    assert rows == [250] * 4
    assert [job.algorithm for job in jobs.list()] == ["culsh"]


def test_old_snapshots_are_counted_in_the_log_once(
    tmp_path: Path, log: RatingLog, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate(log, 10, 6000)
    live_since(tmp_path, hours_ago=0, watermark="10-0", n_ratings=None)
    rate(log, 11, 1199)
    retraining = Retraining(Settings(data=tmp_path), log, jobs)
    retraining.submit_due()
    assert jobs.list() == []
    reads, read = [], log.read

    def reading(after: StreamId, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        reads.append(after)
        return read(after, columns=columns)

    monkeypatch.setattr(log, "read", reading)
    rate(log, 12, 1)
    retraining.submit_due()
    assert [job.algorithm for job in jobs.list()] == ["culsh"]
    assert StreamId(0, 0) not in reads


def test_a_model_that_did_not_go_live_is_tried_again(tmp_path: Path, log: RatingLog, jobs: Jobs) -> None:
    live_since(tmp_path, hours_ago=0, watermark="10-0", n_ratings=100)
    (tmp_path / live_versions.LIVE_FILE).unlink()
    rate(log, 11, 1000)
    assert submitted(Settings(data=tmp_path, default_models=["sgd"]), log, jobs) == ["culsh"]


def test_what_was_given_is_given_again_and_nothing_else(tmp_path: Path, log: RatingLog, jobs: Jobs) -> None:
    """Neither what the data said then, nor defaults, nor a trial that did not go live."""
    model = a_model()
    model.params = params_for("als-implicit", {"n_factors": 8, "alpha": 7.5, "values": "counts"})
    given = {"n_factors": 8, "alpha": 7.5}  # `values` was the setting then
    folder, shape = tmp_path / "snapshots", (2, 3)
    model = Model.zeros(model.params, 0.0, (0.0, 1.0), *shape, calibration=Calibration(regularization=0.3))
    first, later = (version_names.new_version("als-implicit", f"2020010{day}T000000") for day in (1, 2))
    for version, known in ((first, given), (later, {"n_epochs": 1})):
        snapshot.write(
            folder, model, USERS, ITEMS, metrics={}, watermark="10-0", n_ratings=9, given=known, version=version
        )
    live_versions.set_version(tmp_path, "als-implicit", first)
    rate(log, 11, 1000)
    assert submitted(Settings(data=tmp_path), log, jobs) == ["als-implicit"]
    assert jobs.list()[0].params == given


def test_parameters_of_another_version_are_not_tried_for_ever(tmp_path: Path, log: RatingLog, jobs: Jobs) -> None:
    version = version_names.new_version("culsh")
    snapshot.write(
        tmp_path / "snapshots", a_model(), USERS, ITEMS, metrics={}, watermark="10-0", n_ratings=9,
        given={"n_faktors": 3}, version=version,
    )  # fmt: skip
    rate(log, 11, 1000)
    with structlog.testing.capture_logs() as logs:
        assert submitted(Settings(data=tmp_path), log, jobs) == []
    assert [(line["log_level"], line["model"]) for line in logs] == [("error", "culsh")]


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
    settings = Settings(data=tmp_path, retrain_every_ratings=5, default_models=["home", "sgd", "culsh"])
    assert submitted(settings, log, jobs) == ["sgd"]
