import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest
import redis

from service.jobs import table
from service.jobs.errors import UnknownJob
from service.jobs.table import JobTable
from service.storage.errors import StreamUnavailable
from service.storage.streams.redis_server import RedisServer


@pytest.fixture
def jobs(redis_url: str) -> Iterator[JobTable]:
    jobs = JobTable(redis_url)
    yield jobs
    jobs.close()


def claimed(jobs: JobTable, worker: str) -> str | None:
    """The id of the job that `worker` gets."""
    job = jobs.claim(worker)
    return None if job is None else job["id"]


def submit(jobs: JobTable, job_id: str, model: str | None = None, kind: str = "train") -> None:
    name = model or f"model of {job_id}"
    jobs.submit(job_id, {"kind": kind, "name": name})


def test_a_job_from_submission_to_its_end(jobs: JobTable) -> None:
    submit(jobs, "a")
    assert jobs.get("a")["state"] == "queued"
    job = jobs.claim("w")
    assert job is not None
    assert (job["id"], job["state"], job["kind"], job["worker"]) == ("a", "running", "train", "w")
    assert jobs.renew("a", "w", {"progress": "0.5"})
    assert jobs.get("a")["progress"] == "0.5"
    assert jobs.finish("a", "w", "succeeded", {"version": "v1"})
    job = jobs.get("a")
    assert (job["state"], job["version"]) == ("succeeded", "v1")
    assert int(job["created_ms"]) <= int(job["started_ms"]) <= int(job["finished_ms"])
    assert jobs.claim("w") is None


def test_the_same_training_waits_once_and_reads_what_came_later(jobs: JobTable) -> None:
    asked = {"kind": "train", "name": "als", "params": "{}"}
    assert jobs.submit("a", asked, {"watermark": "1-0"}, once=True) == "a"
    assert jobs.submit("b", asked, {"watermark": "2-0", "traceparent": "t"}, once=True) == "a"
    assert (jobs.get("a")["watermark"], jobs.get("a")["traceparent"]) == ("2-0", "t")
    assert jobs.submit("other", asked | {"params": '{"n_factors":8}'}, once=True) == "other"
    assert claimed(jobs, "w") == "a"
    assert jobs.submit("c", asked, once=True) == "c", "what runs has read its ratings already"
    assert jobs.submit("d", asked, once=True) == "c"
    assert jobs.submit("e", asked) == "e"
    assert [job["id"] for job in jobs.all()] == ["e", "c", "other", "a"]


def test_a_job_that_is_there_stays(jobs: JobTable) -> None:
    asked = {"kind": "lists", "name": "als"}
    assert jobs.submit("a", asked) == "a"
    assert claimed(jobs, "w") == "a"
    assert jobs.finish("a", "w", "succeeded", {})
    assert jobs.submit("a", asked, {"watermark": "2-0"}, once=True) == "a"
    assert (jobs.get("a")["state"], jobs.get("a").get("watermark")) == ("succeeded", None)
    assert [job["id"] for job in jobs.all()] == ["a"]


def test_one_training_runs_at_a_time_and_other_jobs_go_past_it(jobs: JobTable) -> None:
    submit(jobs, "a")
    submit(jobs, "b", "sgd")
    submit(jobs, "lists", kind="lists")
    submit(jobs, "gone", kind="forget")
    submit(jobs, "more", kind="lists")
    assert [claimed(jobs, "v"), claimed(jobs, "w"), claimed(jobs, "x")] == ["a", "lists", None]
    jobs.finish("lists", "w", "succeeded", {})
    assert claimed(jobs, "w") is None, "the forgetting waits, and what came after it"
    jobs.finish("a", "v", "succeeded", {})
    assert claimed(jobs, "v") == "b"
    jobs.finish("b", "v", "succeeded", {})
    assert [claimed(jobs, "v"), claimed(jobs, "w")] == ["gone", None]
    jobs.finish("gone", "v", "succeeded", {})
    assert claimed(jobs, "w") == "more"


def test_of_many_at_once_one_is_taken(jobs: JobTable) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda n: jobs.submit(str(n), {"kind": "train", "name": "als"}, once=True), range(8)))
    assert [job["id"] for job in jobs.all()] == list(ids)
    assert len(ids) == 1


def test_without_a_lease_the_worker_is_dead(jobs: JobTable, client: redis.Redis) -> None:
    submit(jobs, "a")
    jobs.claim("w")
    assert 0 < client.pttl("nearfield:job:a:lease") <= table.LEASE_MS
    client.delete("nearfield:job:a:lease")
    job = jobs.get("a")
    assert (job["state"], job["error"]) == ("failed", "worker died")
    assert not jobs.renew("a", "w")
    assert not jobs.finish("a", "w", "succeeded", {})
    submit(jobs, "b")


def test_another_worker_cannot_end_it(jobs: JobTable) -> None:
    submit(jobs, "a")
    jobs.claim("w")
    assert not jobs.renew("a", "other", {"progress": "1"})
    assert not jobs.finish("a", "other", "succeeded", {})
    assert jobs.get("a")["state"] == "running"


def test_cancelling(jobs: JobTable) -> None:
    submit(jobs, "a")
    assert jobs.cancel("a")["state"] == "cancelled"
    assert jobs.claim("w") is None
    submit(jobs, "b")
    jobs.claim("w")
    job = jobs.cancel("b")
    assert (job["state"], job["cancel"]) == ("running", "1")
    jobs.finish("b", "w", "cancelled", {})
    assert jobs.cancel("b")["state"] == "cancelled"


def forgetting(jobs: JobTable, job_id: str, user: str = "ann") -> None:
    jobs.submit(job_id, {"kind": "forget", "user": user})


def test_a_forgetting_outlives_its_workers(
    jobs: JobTable, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgetting(jobs, "a")
    forgetting(jobs, "b")
    for n_dead in range(table.MAX_DEATHS):
        assert jobs.get("a")["state"] == "queued"
        job = jobs.claim(f"w{n_dead}")
        assert job is not None
        assert (job["id"], job["user"]) == ("a", "ann")
        client.delete("nearfield:job:a:lease")
    job = jobs.get("a")
    assert (job["state"], job["user"]) == ("failed", "")
    assert "worker died 5 times" in job["error"]
    assert claimed(jobs, "w") == "b"


def test_a_stopped_worker_gives_a_forgetting_back(jobs: JobTable) -> None:
    forgetting(jobs, "a")
    forgetting(jobs, "b")
    jobs.claim("w")
    assert not jobs.release("a", "somebody")
    assert jobs.release("a", "w")
    assert not jobs.renew("a", "w")
    assert claimed(jobs, "v") == "a"
    jobs.cancel("a")
    assert jobs.release("a", "v")
    assert jobs.get("a")["state"] == "cancelled"


def test_nothing_runs_beside_a_forgetting(jobs: JobTable) -> None:
    submit(jobs, "train")
    assert claimed(jobs, "w") == "train"
    forgetting(jobs, "a")
    forgetting(jobs, "b")
    assert jobs.claim("v") is None
    jobs.finish("train", "w", "succeeded", {})
    submit(jobs, "again")
    assert claimed(jobs, "v") == "a"
    assert jobs.claim("w") is None
    jobs.finish("a", "v", "succeeded", {})
    assert claimed(jobs, "w") == "b"
    jobs.finish("b", "w", "succeeded", {})
    assert claimed(jobs, "w") == "again"


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_a_forgetting_that_has_ended_names_nobody(
    jobs: JobTable, client: redis.Redis, state: Literal["succeeded", "failed", "cancelled"]
) -> None:
    forgetting(jobs, "a")
    jobs.claim("w")
    jobs.finish("a", "w", state, {})
    forgetting(jobs, "queued")
    jobs.cancel("queued")
    assert "ann" not in str([client.hgetall(f"nearfield:job:{job_id}") for job_id in ("a", "queued")])


def test_names_are_dropped_from_all_that_has_ended(jobs: JobTable, client: redis.Redis) -> None:
    submit(jobs, "train")
    jobs.claim("w")
    jobs.finish("train", "w", "failed", {"error": "Invalid ratings (user 'ann', item 'a')"})
    client.hset("nearfield:job:old", mapping={"id": "old", "kind": "forget", "state": "failed", "user": "ann"})
    client.zadd("nearfield:jobs", {"old": 0})  # of an older version, which had no more to say after its worker's death
    forgetting(jobs, "other", "bob")
    forgetting(jobs, "a")
    jobs.submit("lists", {"kind": "lists", "query": '{"type":"Recommend","users":["bob","ann","carl"]}'})
    jobs.drop_name("a", "ann")
    names = "train", "old", "a", "lists"
    assert "ann" not in str([client.hgetall(f"nearfield:job:{job_id}") for job_id in names])
    assert jobs.get("lists")["query"] == '{"type":"Recommend","users":["bob","carl"]}'
    assert jobs.get("other")["user"] == "bob"


def test_unknown_jobs(jobs: JobTable) -> None:
    for ask in (jobs.get, jobs.cancel):
        with pytest.raises(UnknownJob, match="nope"):
            ask("nope")


def test_old_finished_jobs_are_dropped(jobs: JobTable, client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_JOBS", 3)
    submit(jobs, "first")
    for n in range(5):
        submit(jobs, f"j{n}")
        jobs.cancel(f"j{n}")
    submit(jobs, "last")
    assert {job["id"] for job in jobs.all()} == {"first", "j3", "j4", "last"}
    assert not client.exists("nearfield:job:j0")


def test_without_redis() -> None:
    with pytest.raises(StreamUnavailable):
        JobTable("redis://127.0.0.1:1").all()


def test_a_worker_hears_of_a_submission_at_once_and_writes_nothing(jobs: JobTable, client: redis.Redis) -> None:
    assert not jobs.has_worker()
    jobs.wait(0.0)
    assert jobs.has_worker()
    n_changes = client.info("persistence")["rdb_changes_since_last_save"]
    for _ in range(3):
        assert jobs.claim("w") is None
        assert not jobs.wait(0.05)
    assert client.info("persistence")["rdb_changes_since_last_save"] == n_changes
    submitting = threading.Timer(0.2, submit, [jobs, "a"])
    submitting.start()
    began_s = time.monotonic()
    assert jobs.wait(120.0)
    assert time.monotonic() - began_s < 60
    submitting.join()
    assert claimed(jobs, "w") == "a"


def test_a_worker_that_may_not_listen_looks_at_the_queue(redis_server: RedisServer, client: redis.Redis) -> None:
    """As with the rights that were enough before there was the channel."""
    rights = "~nearfield:* resetchannels +@all -@dangerous -@admin +info +config|get +bgrewriteaof"
    client.execute_command("ACL", "SETUSER", "narrow", "on", ">secret", *rights.split())
    jobs = JobTable(f"unix://narrow:secret@{redis_server.socket}")
    try:
        for _ in range(3):
            jobs.wait(0.01)
        assert jobs.has_worker()
        submit(jobs, "a")
        assert claimed(jobs, "w") == "a"
        assert jobs.finish("a", "w", "succeeded", {})
    finally:
        jobs.close()
        client.acl_deluser("narrow")
