"""Schedules as users meet them. That a time has come is what the test says in Redis: none was done since 1970."""

import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
import redis

from service.extras.schedules.records import Record
from service.settings.keyspace import DEFAULT
from service.storage.streams.redis_server import RedisServer
from tests.service.planted import events
from tests.service.process import Service
from tests.service.waiting import eventually

TRAIN, LISTS, GONE = "0 * * * * train als-implicit", "0 * * * * lists weekly", "0 * * * * lists gone"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = {"schedules": f"{TRAIN}; {LISTS}; {GONE}", "backend": "host", "retrain_share": 0}
    service = Service(tmp_path_factory.mktemp("schedules") / "data", fronts=1, **settings)
    yield service
    service.kill()


def listed(service: Service, line: str) -> dict[str, Any]:
    return next(each for each in service.api.get("/admin/schedules")["schedules"] if each["schedule"] == line)


def job_of(service: Service, line: str) -> dict[str, Any]:
    """The job of the last full hour, after its end."""
    with redis.Redis.from_url(RedisServer(service.data).url) as client:
        eventually(lambda: client.hexists(DEFAULT.schedules, line))
        client.hset(DEFAULT.schedules, line, msgspec.json.encode(Record(0)))
    eventually(lambda: listed(service, line)["job"] is not None)
    last = listed(service, line)
    assert (last["next_ms"] - last["last_ms"], last["error"]) == (3_600_000, None)
    return service.api.ended_job(last["job"])


def test_models_are_trained_and_lists_are_made_at_their_times(service: Service) -> None:
    service.rate(*[(event.user, event.item, event.rating or 0.0) for event in events()[:900]])
    assert service.api.get("/admin/jobs")["jobs"] == []
    job = job_of(service, TRAIN)
    assert (job["kind"], job["state"], job["name"], job["schedule"]) == ("train", "succeeded", "als-implicit", TRAIN)

    service.client.put("/admin/scenarios/weekly", json={"n": 4}).raise_for_status()
    job = job_of(service, LISTS)
    assert (job["kind"], job["state"], job["name"], job["schedule"]) == ("lists", "succeeded", "als-implicit", LISTS)
    file = io.BytesIO(service.get(f"/admin/exports/{job['id']}").content)
    assert set(pq.read_table(file)["rank"].to_pylist()) == {1, 2, 3, 4}

    job = job_of(service, GONE)
    assert job["state"] == "failed"
    assert "Invalid scenario: expected one of weekly, got 'gone'" in job["error"]


def test_a_setting_that_cannot_be_read_ends_the_start(service: Service) -> None:
    service.stop()
    service.set(schedules="0 25 * * * train als")
    with pytest.raises(AssertionError, match="Invalid hour of line 1 of schedules: expected 0 to 23"):
        service.start()
