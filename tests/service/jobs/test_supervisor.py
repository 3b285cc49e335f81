import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
import redis
from structlog.testing import capture_logs

from service.cli import synthetic
from service.jobs import supervisor as supervisors
from service.jobs import table
from service.jobs.errors import NoMinutesLeft
from service.jobs.jobs import Job, Jobs
from service.jobs.supervisor import Supervisor
from service.jobs.table import BEGUN, JobTable
from service.jobs.trainer_messages import TrainerMessage
from service.jobs.trainer_process import TrainerProcess
from service.jobs.training import Training
from service.settings.settings import Settings
from service.storage import exclusion
from service.storage.archiver import Archiver
from service.storage.errors import StreamUnavailable
from service.storage.events import RatingEvent, StreamId, encode_ratings, encode_subject
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot, version_names
from service.storage.snapshots.forgetting import without_forgotten
from service.storage.streams.redis_server import RedisServer
from service.storage.streams.stream import Stream
from service.telemetry.metrics import Metrics
from tests.service import logs
from tests.service.logs import ratings_of
from tests.service.planted import SMALL, events
from tests.service.process import descendants
from tests.service.waiting import eventually

ENDLESS = {**SMALL, "n_epochs": 10_000}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path, backend="host")


@pytest.fixture
def jobs(redis_url: str, stream: Stream, tmp_path: Path) -> Iterator[Jobs]:
    table = JobTable(redis_url)
    yield Jobs(table, stream, tmp_path)
    table.close()


@pytest.fixture
def archiver(stream: Stream, log: RatingLog) -> Iterator[Archiver]:
    archiver = Archiver(stream, log)
    archiver.start()
    yield archiver
    archiver.stop()


@pytest.fixture
def supervise(
    redis_url: str, stream: Stream, log: RatingLog, archiver: Archiver
) -> Iterator[Callable[..., Supervisor]]:
    """supervise(settings, **options): a running supervisor beside a running archiver."""
    table, started = JobTable(redis_url), []

    def start(settings: Settings, **options: Any) -> Supervisor:
        started.append(Supervisor(settings, table, stream, log, Metrics(), **options))
        started[-1].start()
        return started[-1]

    yield start
    for supervisor in started:
        supervisor.stop()
    table.close()


@pytest.fixture
def rate(client: redis.Redis) -> Callable[[], StreamId]:
    """rate(): the planted ratings are in the stream."""

    def append() -> StreamId:
        ratings = events()
        for start in range(0, len(ratings), 500):
            last = logs.append(client, encode_ratings(ratings[start : start + 500]))
        return last

    return append


def ended(jobs: Jobs, job: Job) -> Job:
    eventually(lambda: jobs.get(job.id).state in ("succeeded", "failed", "cancelled"))
    return jobs.get(job.id)


def running(jobs: Jobs, job: Job) -> Job:
    eventually(lambda: jobs.get(job.id).progress > 0)
    return jobs.get(job.id)


def trainer_of(job: Job) -> psutil.Process:
    return descendants(job.id)[0]


def test_a_training_covers_everything_before_it_and_its_job_says_what_it_took(
    settings: Settings, jobs: Jobs, supervise: Callable[[Settings], Supervisor], rate: Callable[[], StreamId]
) -> None:
    last_id = rate()
    supervise(settings.model_copy(update={"values": "counts"}))
    job = jobs.submit_training(Training.of("als-implicit", {"n_factors": 4, "n_epochs": 2}))
    assert job.calibration is None
    job = ended(jobs, job)
    assert (job.state, job.error, job.promoted, job.progress) == ("succeeded", None, True, 1.0)
    assert (job.params, job.backend) == ({"n_factors": 4, "n_epochs": 2}, "host: asked for")
    manifest = snapshot.read_manifest(settings.data / "snapshots", str(job.version))
    assert StreamId.parse(manifest.watermark) == last_id
    assert manifest.n_users == 60
    assert (manifest.metrics, manifest.calibration) == (job.metrics, job.calibration)
    assert manifest.calibration.values == "counts"  # as the setting says: these are ratings
    assert live_versions.read(settings.data) == {"als-implicit": job.version}


def test_a_job_of_an_unknown_kind_fails_and_forgets_nobody(
    settings: Settings,
    jobs: Jobs,
    redis_url: str,
    supervise: Callable[[Settings], Supervisor],
    rate: Callable[[], StreamId],
    log: RatingLog,
) -> None:
    """As a newer version, or another program, may submit one."""
    last_id = rate()
    table = JobTable(redis_url)
    user = next(iter(events())).user
    table.submit("newer", {"kind": "compact", "user": user, "watermark": str(last_id)})
    supervise(settings)
    eventually(lambda: jobs.get("newer").state == "failed")
    table.close()
    shown = jobs.get("newer")
    assert (shown.kind, shown.error) == (
        "compact",
        "Invalid kind of job: expected forget, lists, train, undo, got 'compact'; upgrade this worker if a newer"
        " version has submitted the job",
    )
    assert ended(jobs, jobs.submit_forgetting("nobody", last_id)).state == "succeeded"  # the worker goes on
    assert ratings_of(log, user)


def test_trainings_run_one_after_the_other(
    settings: Settings,
    jobs: Jobs,
    supervise: Callable[[Settings], Supervisor],
    rate: Callable[[], StreamId],
    client: redis.Redis,
) -> None:
    rate()
    supervise(settings)
    job = running(jobs, jobs.submit_training(Training.of("culsh", ENDLESS)))
    assert re.fullmatch(r"epoch \d+ of [\d]+", str(jobs.get(job.id).phase))
    assert trainer_of(job).nice() == 19
    other = jobs.submit_training(Training.of("als", {"n_factors": 4, "n_epochs": 1}))
    again = jobs.submit_training(Training.of("culsh", SMALL))
    later = rate()
    assert jobs.submit_training(Training.of("culsh", SMALL)).id == again.id
    assert client.hget(f"nearfield:job:{again.id}", "watermark") == str(later)
    assert [(jobs.get(one.id).state, jobs.get(one.id).phase) for one in (other, again)] == [("queued", None)] * 2
    jobs.cancel(job.id)
    assert ended(jobs, job).state == "cancelled"
    assert [ended(jobs, one).state for one in (other, again)] == ["succeeded"] * 2
    assert jobs.get(other.id).phase is None


def test_a_failed_training_keeps_its_progress(
    settings: Settings, jobs: Jobs, redis_url: str, stream: Stream, log: RatingLog
) -> None:
    """Not the 0 of its last message, which has the error alone."""
    told = iter(
        [TrainerMessage(progress=0.4, metrics={"rmse": 1.5}), TrainerMessage(outcome="failed", error="why"), None]
    )
    process = SimpleNamespace(next_message=lambda timeout_s: next(told), has_ended=True)
    table = JobTable(redis_url)
    supervisor = Supervisor(settings, table, stream, log, Metrics())
    job = jobs.submit_training(Training.of("culsh", SMALL))
    claimed = table.claim(supervisor._worker)
    assert claimed is not None
    assert supervisor._watch(claimed, cast("TrainerProcess", process)).error == "why"
    job = jobs.get(job.id)
    assert (job.progress, job.metrics) == (0.4, {"rmse": 1.5})
    table.close()


def test_a_trainer_that_is_killed_fails_its_job(
    settings: Settings, jobs: Jobs, supervise: Callable[[Settings], Supervisor], rate: Callable[[], StreamId]
) -> None:
    rate()
    supervise(settings)
    job = running(jobs, jobs.submit_training(Training.of("culsh", ENDLESS)))
    os.kill(trainer_of(job).pid, signal.SIGKILL)
    job = ended(jobs, job)
    assert job.state == "failed"
    assert "signal 9" in str(job.error)


def test_a_training_that_takes_too_long_fails_and_lets_the_next_one_start(
    settings: Settings,
    jobs: Jobs,
    supervise: Callable[[Settings], Supervisor],
    rate: Callable[[], StreamId],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rate()
    supervise(settings.model_copy(update={"max_job_hours": 1.5}))
    job = running(jobs, jobs.submit_training(Training.of("culsh", ENDLESS)))
    pid = trainer_of(job).pid
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 1.5 * 3600)
    job = ended(jobs, job)
    assert job.state == "failed"
    assert str(job.error).startswith("the job ran for longer than 1.5 hours: train fewer epochs, or set NEARFI")
    assert not psutil.pid_exists(pid)
    assert jobs.submit_training(Training.of("culsh", SMALL)).state in ("queued", "running")


def test_trainings_end_at_their_quota_and_no_further_one_begins(
    settings: Settings,
    redis_url: str,
    stream: Stream,
    supervise: Callable[[Settings], Supervisor],
    rate: Callable[[], StreamId],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rate()
    settings, table = settings.model_copy(update={"quota_training_minutes": 30.0}), JobTable(redis_url)
    jobs = Jobs(table, stream, settings.data, quota_minutes=settings.quota_training_minutes)
    supervise(settings)
    first = running(jobs, jobs.submit_training(Training.of("culsh", ENDLESS)))
    waiting = jobs.submit_training(Training.of("culsh-implicit", ENDLESS))
    now, monotonic = time.time, time.monotonic
    monkeypatch.setattr(time, "time", lambda: now() + 1801)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 1801)
    for job in (ended(jobs, first), ended(jobs, waiting)):
        assert job.state == "failed"
        assert str(job.error).startswith("trainings have taken their quota of 30 minutes within 24 hours: wait, or set")
    assert 30 <= jobs.minutes_used() < 31
    with pytest.raises(NoMinutesLeft, match="30 minutes") as caught:
        jobs.submit_training(Training.of("als", {}))
    assert 23.4 * 3600 < (caught.value.retry_after_s or 0) < 23.6 * 3600
    monkeypatch.setattr(time, "time", lambda: now() + 1801 + 86_400)
    assert jobs.minutes_used() < 1
    assert ended(jobs, jobs.submit_training(Training.of("culsh", SMALL))).state == "succeeded"
    table.close()


def test_a_day_of_minutes_is_never_used_up(jobs: Jobs, stream: Stream, redis_url: str, tmp_path: Path) -> None:
    table = JobTable(redis_url)
    table.submit("long", {"kind": "train", "algorithm": "als", "watermark": "0-1", BEGUN: "0"})
    assert table.claim("worker") is not None
    days = [Jobs(table, stream, tmp_path, quota_minutes=minutes) for minutes in (1_440, 1_439)]
    assert [round(each.minutes_used()) for each in days] == [1_440, 1_440]
    assert [each.seconds_left() > 0 for each in days] == [True, False]
    table.close()


def test_a_supervisor_that_dies_leaves_a_failed_job(
    settings: Settings,
    jobs: Jobs,
    client: redis.Redis,
    supervise: Callable[[Settings], Supervisor],
    rate: Callable[[], StreamId],
) -> None:
    rate()
    supervise(settings)
    job = running(jobs, jobs.submit_training(Training.of("culsh", ENDLESS)))
    pid = trainer_of(job).pid
    client.delete(f"nearfield:job:{job.id}:lease")  # as if it had not been renewed for ten seconds
    job = jobs.get(job.id)
    assert (job.state, job.error) == ("failed", "worker died")
    eventually(lambda: not psutil.pid_exists(pid))


STALLING = """
import signal, sys, threading, time
from pathlib import Path
from service.jobs import supervisor
from service.jobs.table import BEGUN, JobTable
from service.settings.settings import Settings
from service.storage.log.rating_log import RatingLog
from service.storage.streams.stream import Stream
from service.telemetry.metrics import Metrics

without_forgotten = supervisor.without_forgotten

def stalling(*arguments):
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # one to the process lets this thread run on for a while
    return without_forgotten(*arguments)

supervisor.without_forgotten = stalling
url, data = sys.argv[1], Path(sys.argv[2])
parts = JobTable(url), Stream(url), RatingLog(data / "ratings"), Metrics()
supervisor.Supervisor(Settings(data=data, backend="host"), *parts).start()
time.sleep(600)
"""


def test_a_supervisor_that_was_stopped_makes_no_model_live(
    settings: Settings,
    jobs: Jobs,
    client: redis.Redis,
    archiver: Archiver,
    rate: Callable[[], StreamId],
    redis_url: str,
) -> None:
    """It stops between the end of the training and `live.json`, until the job has failed."""
    rate()
    job = jobs.submit_training(Training.of("als", {"n_factors": 4, "n_epochs": 2}))
    with subprocess.Popen([sys.executable, "-c", STALLING, redis_url, str(settings.data)]) as stopped:
        try:
            eventually(lambda: psutil.Process(stopped.pid).status() == psutil.STATUS_STOPPED, 60)
            client.delete(f"nearfield:job:{job.id}:lease")  # as ten seconds later
            assert (jobs.get(job.id).state, jobs.get(job.id).error) == ("failed", "worker died")
            stopped.send_signal(signal.SIGCONT)
            later = jobs.submit_training(Training.of("als", {"n_factors": 4, "n_epochs": 2}))
            eventually(lambda: jobs.get(later.id).state == "running", 60)  # it is done with the first one
        finally:
            stopped.kill()
    assert snapshot.versions(settings.data / "snapshots")
    assert live_versions.read(settings.data) == {}
    assert jobs.get(job.id).state == "failed"


def test_a_supervisor_that_waits_for_longer_than_a_lease_keeps_its_job(
    settings: Settings,
    jobs: Jobs,
    supervise: Callable[[Settings], Supervisor],
    rate: Callable[[], StreamId],
    client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a machine without a free processor, or with a slow disk."""
    monkeypatch.setattr(supervisors, "RENEW_EVERY_S", 0.1)

    def slow(*arguments: Any) -> str:
        """Wait until the lease is renewed twice."""
        (lease,) = client.keys("nearfield:job:*:lease")
        for _ in range(2):
            assert client.pexpire(lease, table.LEASE_MS // 2)
            eventually(lambda: client.pttl(lease) > table.LEASE_MS // 2)
        jobs.list()  # buries the jobs whose leases have ended
        return without_forgotten(*arguments)

    monkeypatch.setattr(supervisors, "without_forgotten", slow)
    rate()
    supervise(settings)
    job = ended(jobs, jobs.submit_training(Training.of("als", {"n_factors": 4, "n_epochs": 2})))
    assert (job.state, job.error, job.promoted) == ("succeeded", None, True)
    assert live_versions.read(settings.data) == {"als": job.version}


def test_a_training_waits_for_redis_before_its_model_goes_live(
    settings: Settings,
    jobs: Jobs,
    supervise: Callable[[Settings], Supervisor],
    rate: Callable[[], StreamId],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without Redis nobody knows whether the job is still ours."""
    activate, n_calls = live_versions.activate, 0

    def unreachable(*arguments: Any, **options: Any) -> None:
        nonlocal n_calls
        n_calls += 1
        if n_calls < 3:
            raise StreamUnavailable("Redis is gone")
        activate(*arguments, **options)

    monkeypatch.setattr(live_versions, "activate", unreachable)
    rate()
    supervise(settings)
    job = ended(jobs, jobs.submit_training(Training.of("als", {"n_factors": 4, "n_epochs": 2})))
    assert (job.state, job.error, n_calls) == ("succeeded", None, 3)
    assert live_versions.read(settings.data) == {"als": job.version}


def test_a_trainer_ends_with_its_supervisor(
    settings: Settings, jobs: Jobs, supervise: Callable[..., Supervisor], rate: Callable[[], StreamId], redis_url: str
) -> None:
    """Killed as nobody can refuse: nothing is left that could write a snapshot of those who are forgotten since."""
    code = (
        "import sys, time; from pathlib import Path; from service.jobs.table import JobTable;"
        "from service.telemetry.metrics import Metrics; from service.storage.log.rating_log import RatingLog;"
        "from service.storage.streams.stream import Stream; from service.jobs.supervisor import Supervisor;"
        "from service.settings.settings import Settings;"
        "data = Path(sys.argv[2]); log = RatingLog(data / 'ratings'); url = sys.argv[1];"
        "Supervisor(Settings(data=data, backend='host'), JobTable(url), Stream(url), log, Metrics()).start();"
        "time.sleep(600)"
    )
    archived = rate()
    job = jobs.submit_training(Training.of("culsh", ENDLESS))
    supervisor = subprocess.Popen([sys.executable, "-c", code, redis_url, str(settings.data)])
    try:
        running(jobs, job)
        (trainer,) = psutil.Process(supervisor.pid).children()
        assert exclusion.try_take(settings.data, shared=False) is None
    finally:
        supervisor.kill()
        supervisor.wait()
    eventually(lambda: not trainer.is_running() or trainer.status() == psutil.STATUS_ZOMBIE)
    lock = eventually(lambda: exclusion.try_take(settings.data, shared=False))
    lock.release()
    assert RatingLog(settings.data / "ratings").last_id() == archived
    assert snapshot.versions(settings.data / "snapshots") == []


def forgotten(client: redis.Redis, user: str) -> StreamId:
    return logs.append(client, encode_subject("forget", user))


def names(data: Path, user: str) -> list[str]:
    folder = data / "snapshots"
    return [version for version in snapshot.versions(folder) if snapshot.holds_user(folder, version, user)]


def test_forgetting_waits_for_the_training_of_another_worker(
    settings: Settings,
    jobs: Jobs,
    supervise: Callable[[Settings], Supervisor],
    rate: Callable[[], StreamId],
    client: redis.Redis,
) -> None:
    rate()
    supervise(settings)
    training = running(jobs, jobs.submit_training(Training.of("culsh", {**SMALL, "n_epochs": 60})))
    forgetting = jobs.submit_forgetting("u3", forgotten(client, "u3"))
    supervise(settings)  # who has nothing else to do
    forgetting = ended(jobs, forgetting)
    assert (forgetting.state, forgetting.error) == ("succeeded", None)
    assert jobs.get(training.id).state == "succeeded"
    assert names(settings.data, "u3") == []
    assert len(snapshot.versions(settings.data / "snapshots")) == 1
    assert live_versions.read(settings.data)["culsh"] in snapshot.versions(settings.data / "snapshots")


def test_forgetting_waits_for_a_trainer_without_a_job(
    settings: Settings, jobs: Jobs, supervise: Callable[[Settings], Supervisor], client: redis.Redis
) -> None:
    """One whose lease has run out, as after its supervisor's death."""
    lock = exclusion.try_take(settings.data, shared=True)
    assert lock is not None
    left = settings.data / "snapshots" / ".culsh-20260101T000000-beef.77.tmp"
    left.mkdir()
    supervise(settings)
    job = jobs.submit_forgetting("u3", forgotten(client, "u3"))
    eventually(lambda: jobs.get(job.id).state == "running")
    time.sleep(0.5)  # it would not take that long without the lock
    assert jobs.get(job.id).state == "running"
    assert left.exists()
    lock.release()
    assert ended(jobs, job).state == "succeeded"
    assert not left.exists()


def test_who_was_forgotten_during_a_training_is_not_in_what_goes_live(
    settings: Settings,
    jobs: Jobs,
    supervise: Callable[[Settings], Supervisor],
    rate: Callable[[], StreamId],
    client: redis.Redis,
    stream: Stream,
    log: RatingLog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where nothing excludes the two: on a disk that does not share its locks."""
    monkeypatch.setattr("service.storage.exclusion.LOCK_FILE", ".lock1")
    rate()
    supervise(settings)
    training = running(jobs, jobs.submit_training(Training.of("culsh", {**SMALL, "n_epochs": 60})))
    trainer = trainer_of(training)
    trainer.suspend()  # else it may end before the log has the entry
    position = forgotten(client, "u3")
    stream.request_commit(position)
    eventually(lambda: log.last_id() >= position)
    trainer.resume()
    training = ended(jobs, training)
    assert (training.state, training.promoted) == ("succeeded", True)
    assert names(settings.data, "u3") == []
    assert version_names.shown(live_versions.read(settings.data)["culsh"]) == training.version


def test_a_forgetting_whose_worker_stops_is_gone_on_with(
    settings: Settings,
    jobs: Jobs,
    supervise: Callable[[Settings], Supervisor],
    rate: Callable[[], StreamId],
    client: redis.Redis,
    log: RatingLog,
) -> None:
    rate()
    lock = exclusion.try_take(settings.data, shared=True)
    assert lock is not None
    supervisor = supervise(settings)
    job = jobs.submit_forgetting("u3", forgotten(client, "u3"))
    eventually(lambda: jobs.get(job.id).state == "running")
    supervisor.stop()
    assert jobs.get(job.id).state == "queued"
    lock.release()
    supervise(settings)
    assert ended(jobs, job).state == "succeeded"
    assert ratings_of(log, "u3") == []


def test_stopping_stops_the_trainer(
    settings: Settings, jobs: Jobs, supervise: Callable[[Settings], Supervisor], rate: Callable[[], StreamId]
) -> None:
    rate()
    supervisor = supervise(settings)
    job = running(jobs, jobs.submit_training(Training.of("culsh", ENDLESS)))
    pid = trainer_of(job).pid
    supervisor.stop()
    assert not psutil.pid_exists(pid)
    job = jobs.get(job.id)
    assert (job.state, job.error) == ("failed", "the worker was stopped")


def test_no_ratings_and_no_activation(
    settings: Settings, jobs: Jobs, supervise: Callable[[Settings], Supervisor], rate: Callable[[], StreamId]
) -> None:
    supervise(settings)
    job = ended(jobs, jobs.submit_training(Training.of("culsh", SMALL)))
    assert job.state == "failed"
    assert "at least one rating" in str(job.error)
    rate()
    job = ended(jobs, jobs.submit_training(Training.of("culsh", SMALL, activate=False)))
    assert (job.state, job.promoted, job.reason) == ("succeeded", False, "activate was false")
    assert live_versions.read(settings.data) == {}


def test_ratings_that_an_algorithm_cannot_use_fail_its_job_with_the_reason(
    settings: Settings, jobs: Jobs, supervise: Callable[[Settings], Supervisor], client: redis.Redis
) -> None:
    logs.append(client, encode_ratings([RatingEvent("u", "a", 1.0, 0.0), RatingEvent("v", "a", -5.0, 0.0)]))
    supervise(settings)
    job = ended(jobs, jobs.submit_training(Training.of("nmf", {})))
    assert (job.state, job.error) == (
        "failed",
        "InvalidRatings: Invalid ratings for nmf: expected 0 or more, got -5; train als-implicit, which takes low "
        "values for dislikes (user 'v', item 'a')",
    )


def test_force_overrides_the_comparison_and_says_so(
    settings: Settings, jobs: Jobs, supervise: Callable[[Settings], Supervisor], client: redis.Redis
) -> None:
    planted = synthetic.planted(0, 600, 60)  # more than 1,000 pairs are held out
    triples = zip(planted.viewers.tolist(), planted.items.tolist(), planted.ratings.tolist(), strict=True)
    ratings = [RatingEvent(f"u{user}", f"i{item}", rating, 1.0) for user, item, rating in triples]
    for start in range(0, len(ratings), 1000):
        logs.append(client, encode_ratings(ratings[start : start + 1000]))
    supervise(settings)
    useless = {"n_factors": 8, "n_epochs": 1, "learning_rate": 1e-4, "bias_regularization": 5000, "n_neighbors": 0}
    first = ended(jobs, jobs.submit_training(Training.of("culsh-implicit", useless)))
    assert (first.state, first.promoted) == ("succeeded", False)
    assert "no better than the most popular items" in str(first.reason)
    assert live_versions.read(settings.data) == {}
    forced = ended(jobs, jobs.submit_training(Training.of("culsh-implicit", useless, force=True)))
    assert (forced.promoted, forced.reason) == (True, f"force was true: {first.reason}")
    assert forced.metrics["ndcg@10"] <= forced.metrics["baseline_ndcg@10"]
    assert live_versions.read(settings.data) == {"culsh-implicit": forced.version}


def test_a_job_shows_what_its_search_tried(
    settings: Settings, jobs: Jobs, supervise: Callable[[Settings], Supervisor], client: redis.Redis
) -> None:
    ratings = events()
    for start in range(0, len(ratings), 1000):
        logs.append(client, encode_ratings(ratings[start : start + 1000]))
    supervise(settings)
    job = ended(jobs, jobs.submit_training(Training.of("als", {"n_factors": 4, "n_epochs": 2}, tune=True)))
    assert job.state == "succeeded"
    assert {"round", "n_epochs", "score", "seconds"} <= job.trials[0].keys()


def test_training_by_itself_after_so_many_ratings(
    settings: Settings,
    jobs: Jobs,
    supervise: Callable[[Settings], Supervisor],
    rate: Callable[[], StreamId],
    stream: Stream,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.jobs.schedule.CHECK_EVERY_S", 0.1)
    changed = settings.model_copy(update={"retrain_every_ratings": 1500, "default_models": ["sgd"]})
    supervise(changed)
    stream.request_commit(rate())
    eventually(lambda: bool(jobs.list()))
    job = ended(jobs, jobs.list()[0])
    assert (job.algorithm, job.state, job.promoted) == ("sgd", "succeeded", True)
    time.sleep(0.5)
    assert len(jobs.list()) == 1  # nothing has come since


def test_a_job_that_nobody_can_take_says_so_until_a_worker_runs(
    settings: Settings, jobs: Jobs, supervise: Callable[[Settings], Supervisor], rate: Callable[[], StreamId]
) -> None:
    rate()
    with capture_logs() as lines:
        job = jobs.submit_training(Training.of("culsh", SMALL))
    assert job.reason is not None
    assert "no worker runs: start `nearfield worker`" in job.reason
    assert [one.reason for one in jobs.list()] == [job.reason] == [jobs.get(job.id).reason]
    assert [(line["log_level"], line["event"], line["job"]) for line in lines] == [("warning", job.reason, job.id)]
    supervise(settings)
    assert ended(jobs, job).reason is None
    with capture_logs() as lines:
        assert jobs.submit_training(Training.of("culsh", SMALL)).reason is None
    assert not [line for line in lines if line["log_level"] == "warning"]


def test_without_redis_a_worker_says_it_once_and_comes_back(tmp_path: Path, settings: Settings) -> None:
    server, log = RedisServer(tmp_path / "server"), RatingLog(tmp_path / "ratings")
    stream, table = Stream(server.url, log.last_id), JobTable(server.url)
    with capture_logs() as lines:
        supervisor = Supervisor(settings, table, stream, log, Metrics())
        supervisor.start()
        eventually(lambda: lines)
        time.sleep(1.5)  # in which it tries again
        said = [line["event"] for line in lines]
        server.start()
        eventually(table.has_worker)
        supervisor.stop()
    assert said == ["the worker cannot work and tries again"]
    assert [line["event"] for line in lines if "worker" in line["event"]][1:] == ["the worker works again"]
    stream.close()
    table.close()
    server.stop()
