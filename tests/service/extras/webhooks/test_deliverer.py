"""Deliveries with a real Redis and a real target, without the rest of the service."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from service.extras.webhooks import deliverer as deliverer_module
from service.extras.webhooks import deliveries as deliveries_module
from service.extras.webhooks import sender, webhook_file
from service.extras.webhooks.deliverer import Deliverer, headers_of
from service.extras.webhooks.deliveries import Attempt, Claimed, Deliveries
from service.extras.webhooks.webhook_file import EndOfJob, StoredWebhook, TooManyWebhooks
from service.jobs import table as job_table
from service.jobs.jobs import Jobs
from service.jobs.table import FinalState, JobTable
from service.settings.settings import Settings
from service.storage import sealed_file
from service.storage.streams.stream import Stream
from service.telemetry.metrics import Metrics
from tests.service.extras.webhooks.receiver import HANGS, Receiver, receiving
from tests.service.waiting import eventually

ALL: list[EndOfJob] = ["forget.succeeded", "forget.failed"]
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def table(redis_url: str) -> Iterator[JobTable]:
    table = JobTable(redis_url)
    yield table
    table.close()


@pytest.fixture
def deliveries(redis_url: str) -> Iterator[Deliveries]:
    deliveries = Deliveries(redis_url)
    yield deliveries
    deliveries.close()


@pytest.fixture
def start(
    redis_url: str, table: JobTable, deliveries: Deliveries, stream: Stream, tmp_path: Path
) -> Iterator[Callable[[], Deliverer]]:
    """start(): one more deliverer, as that of another replica."""
    settings = Settings(data=tmp_path, webhook_networks=["127.0.0.0/8"])
    started: list[Deliverer] = []

    def start() -> Deliverer:
        started.append(Deliverer(settings, Jobs(table, stream, tmp_path), deliveries, Metrics()))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()


def ended(table: JobTable, job_id: str, state: FinalState = "succeeded") -> None:
    table.submit(job_id, {"kind": "forget", "user": "ann"})
    table.claim("w")
    assert table.finish(job_id, "w", state, {})


def add(data: Path, url: str) -> StoredWebhook:
    return webhook_file.add(data, url, ALL)


def test_every_kind_of_end_is_kept(table: JobTable, client: redis.Redis) -> None:
    table.submit("cancelled", {"kind": "train"})
    table.cancel("cancelled")
    ended(table, "finished")
    table.submit("died", {"kind": "train"})
    table.claim("w")
    client.delete("nearfield:job:died:lease")
    table.submit("running", {"kind": "train"})
    table.claim("w")
    assert client.lrange("nearfield:jobs:ended", 0, -1) == ["cancelled", "finished", "died"]


def test_no_more_ends_are_kept_than_jobs(table: JobTable, client: redis.Redis) -> None:
    for n in range(job_table.MAX_JOBS + 2):
        ended(table, str(n))
    kept = client.lrange("nearfield:jobs:ended", 0, -1)
    assert (len(kept), kept[0]) == (job_table.MAX_JOBS, "2")


def test_two_processes_tell_each_end_once(table, receiver, start, tmp_path):
    paths = ["/one", "/two"]
    for path in paths:
        add(tmp_path, receiver.answer(path))
    for n in range(10):
        ended(table, str(n))
    for _ in range(2):
        start()
    expected = sorted(map(str, range(10)))
    eventually(lambda: all(len(receiver.at[path]) >= 10 for path in paths), 60)
    time.sleep(3 * deliverer_module.POLL_S)
    for path in paths:
        assert sorted(one.message["job"]["id"] for one in receiver.at[path]) == expected


def test_a_target_is_given_up_in_the_end(table, deliveries, receiver, start, tmp_path, monkeypatch):
    monkeypatch.setattr(deliverer_module, "MAX_ATTEMPTS", 2)
    webhook = add(tmp_path, receiver.answer("/never", *[500] * 9))
    ended(table, "a", "failed")
    start()
    progress = eventually(lambda: (one := deliveries.progress([webhook.id])[webhook.id]).given_up and one, 60)
    assert (progress.waiting, progress.delivered, len(receiver.at["/never"])) == (0, 0, 2)
    assert (progress.last.attempt, progress.last.outcome) == (2, "given-up")


def test_pauses_grow_and_end_after_some_hours():
    pauses = [deliverer_module.pause_s(attempt) for attempt in range(1, deliverer_module.MAX_ATTEMPTS)]
    assert pauses == [1, 4, 16, 64, 256, 1024, *[3600] * 5]
    assert round(sum(pauses) / 3600, 1) == 5.4


def test_a_stop_waits_for_no_target_and_loses_nothing(table, deliveries, receiver, start, tmp_path, monkeypatch):
    monkeypatch.setattr(sender, "TIMEOUT_S", 1000.0)  # who waits for the target fails
    monkeypatch.setattr(deliveries_module, "LEASE_MS", 1_000_000)  # and the lease does not end
    add(tmp_path, receiver.answer("/stopped", HANGS))
    ended(table, "a")
    first = start()
    eventually(lambda: receiver.at["/stopped"], 60)
    begin = time.monotonic()
    first.stop()
    assert time.monotonic() - begin < 60
    receiver.answer("/stopped")
    start()
    eventually(lambda: receiver.at["/stopped"], 60)


def test_what_a_dead_process_had_begun_is_begun_again(deliveries, client, table, monkeypatch):
    ended(table, "a")
    assert deliveries.next([]) == "a"
    deliveries.share("a", ["hook", "other"])
    deliveries.share("a", ["hook"])  # of a process that was slower
    assert deliveries.next(["hook"]) == Claimed("other", "a", 1)
    assert deliveries.next([]) == Claimed("hook", "a", 1)
    assert deliveries.next([]) is None
    monkeypatch.setattr(deliveries_module, "LEASE_MS", 0)
    client.zadd("nearfield:webhooks:due", {"hook-a": 0})  # the lease has ended
    again = deliveries.next([])
    assert again == Claimed("hook", "a", 2)
    deliveries.settle(Claimed("hook", "a", 1), Attempt("a", 1, "delivered", None, 5), None)  # it was only slow
    assert deliveries.progress(["hook"])["hook"].waiting == 1
    deliveries.settle(again, Attempt("a", 2, "failed", "500", 6), HOUR_MS)
    progress = deliveries.progress(["hook"])["hook"]
    assert (progress.waiting, progress.last) == (1, Attempt("a", 2, "failed", "500", 6))
    assert progress.next_ms is not None
    assert abs(progress.next_ms - time.time() * 1000 - HOUR_MS) < 60_000
    deliveries.forget("hook")
    assert deliveries.progress(["hook"])["hook"] == (0, None, 0, 0, None)
    assert client.zrange("nearfield:webhooks:due", 0, -1) == ["other-a"]


def test_nothing_is_left_of_jobs_and_webhooks_that_are_gone(table, deliveries, receiver, start, tmp_path, client):
    webhook = add(tmp_path, receiver.answer("/left"))
    ended(table, "a")
    for job in ("a", "dropped"):
        client.rpush("nearfield:jobs:ended", job)
        client.zadd("nearfield:webhooks:due", {f"removed-{job}": 0, f"{webhook.id}-{job}": 0})
    start()
    eventually(lambda: not client.exists("nearfield:webhooks:due", "nearfield:webhooks:attempts"), 60)
    assert {one.message["job"]["id"] for one in receiver.at["/left"]} == {"a"}


def test_at_most_so_many_can_exist(tmp_path, monkeypatch):
    monkeypatch.setattr(webhook_file, "MAX_WEBHOOKS", 2)
    for n in range(2):
        add(tmp_path, f"https://example.com/{n}")
    with pytest.raises(TooManyWebhooks, match="remove one first"):
        add(tmp_path, "https://example.com/2")


def test_the_file_is_for_its_owner_alone_and_shows_damage(tmp_path):
    webhook = add(tmp_path, "https://example.com/jobs")
    path = tmp_path / sealed_file.WEBHOOKS_FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(webhook.key) == 32
    path.write_bytes(path.read_bytes().replace(b"example.com", b"evil.example"))
    with pytest.raises(sealed_file.CorruptFile, match=r"webhooks\.json"):
        webhook_file.read(tmp_path)


def test_the_documented_check_knows_our_requests(tmp_path):
    text = (Path(__file__).parents[4] / "docs" / "administration.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?def is_genuine.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    is_genuine, webhook, body = names["is_genuine"], add(tmp_path, "https://example.com/"), b'{"type":"train.failed"}'
    headers = headers_of(webhook, "hook-job", body, 1_000_000)
    assert is_genuine(headers, body, webhook.secret, 1_000_299)
    assert not is_genuine(headers, body, webhook.secret, 1_000_300)
    assert not is_genuine(headers, body, webhook.secret)
    assert not is_genuine(headers, body + b" ", webhook.secret, 1_000_000)
    assert not is_genuine({**headers, "webhook-id": "other-job"}, body, webhook.secret, 1_000_000)
    assert not is_genuine({**headers, "webhook-timestamp": "1000001"}, body, webhook.secret, 1_000_000)
    assert not is_genuine(headers, body, add(tmp_path, "https://example.com/").secret, 1_000_000)
