"""Disks that are full, a Redis that freezes, a clock that goes backward, files that are altered."""

import contextlib
import random
import shutil
import time
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest
import redis

from service.base.errors import ServiceError
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import snapshot
from service.storage.streams.redis_server import RedisServer
from tests.faults import results
from tests.faults.small_disk import small_disk
from tests.service.keys import RATINGS
from tests.service.local import serving
from tests.service.process import Service
from tests.service.waiting import eventually

OLD = Path(__file__).parents[1] / "service" / "data-57eaa35" / "data"
__all__ = ["small_disk"]

ENOSPC_POINTS = [f"fsync:{number}:ENOSPC" for number in (range(4, 10) if results.IS_LONG else (5,))]


def fill(filler: Path) -> None:
    """Take all the room that is left, that at the end of the file too."""
    with filler.open("ab", buffering=0) as file:
        for n_bytes in (65536, 512, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(n_bytes)):
                    pass


def post(service: Service, number: int) -> httpx.Response:
    return service.client.post("/ratings", json={"user": "ann", "item": f"i{number}", "rating": 3})


def items_of(service: Service, position: str) -> set[str]:
    return {one["item"] for one in service.get("/users/ann/ratings", wait_for=position).json()["ratings"]}


def is_restarted(service: Service, first: int) -> bool:
    """Whether another Redis than `first` runs, or has just been started."""
    with contextlib.suppress(psutil.NoSuchProcess):  # on a full disk each ends again soon
        children = psutil.Process(service.pid("engine")).children()
        return any(child.pid != first and child.status() != psutil.STATUS_ZOMBIE for child in children)
    return False


def is_archived(data: Path, position: str) -> bool:
    return RatingLog(data / "ratings").last_id() >= StreamId.parse(position)


def ask_to_commit(data: Path) -> None:
    with redis.Redis.from_url(RedisServer(data).url) as client:
        client.set("nearfield:commit", client.xinfo_stream(RATINGS)["last-generated-id"])


def test_a_full_disk_under_data_refuses_and_goes_on(small_disk: Path, tmp_path: Path) -> None:
    """Redis lies elsewhere, so that only the log has no room."""
    server = RedisServer(tmp_path / "elsewhere")
    server.start()
    data = small_disk / "data"
    service = Service(data, redis=server.url, worker=False, backend="host")
    row = results.row("disk full under DATA")
    try:
        assert post(service, 0).status_code == 202
        filler = small_disk / "filler"
        fill(filler)
        with redis.Redis.from_url(server.url) as client:
            client.set("nearfield:commit", client.xinfo_stream(RATINGS)["last-generated-id"])
        eventually(lambda: service.get("/health/ready").status_code == 503, 60)
        assert "No space left" in service.get("/health/ready").json()["reason"]
        answer = post(service, 1)
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (503, "log-unavailable")
        assert service.get("/recommend/ann").status_code == 200
        filler.unlink()
        freed_s = time.monotonic()
        eventually(lambda: service.get("/health/ready").status_code == 200, 60)
        row.ready_s.append(time.monotonic() - freed_s)
        last = post(service, 2).json()["stream_id"]
        assert items_of(service, last) == {"i0", "i2"}
        assert service.stop() == 0
        service.start()
        assert items_of(service, last) == {"i0", "i2"}
        row.n_trials, row.n_acknowledged = row.n_trials + 1, row.n_acknowledged + 2
    finally:
        service.kill()
        server.stop()


def test_a_full_disk_under_redis_refuses_and_goes_on(small_disk: Path) -> None:
    """Redis ends at a write that fails, since it promised to be durable; what it had not acknowledged is refused.

    The log of the service lies on the same disk: that Redis died cannot be logged either.
    """
    data = small_disk / "data"
    service = Service(data, worker=False, backend="host")
    row = results.row("disk full under Redis")
    try:
        acknowledged = [number for number in range(3) if post(service, number).status_code == 202]
        first = RedisServer(data).pid
        filler = small_disk / "filler"
        fill(filler)
        fill(service.errors)
        answers = [post(service, number) for number in range(3, 40)]
        assert {answer.status_code for answer in answers} <= {202, 503}
        assert answers[-1].status_code == 503
        acknowledged += [number for number, answer in enumerate(answers, 3) if answer.status_code == 202]
        eventually(lambda: service.get("/health/ready").status_code == 503, 60)
        eventually(lambda: is_restarted(service, first), 60)
        filler.unlink()
        freed_s = time.monotonic()
        eventually(lambda: service.get("/health/ready").status_code == 200, 60)
        row.ready_s.append(time.monotonic() - freed_s)
        last = eventually(lambda: post(service, 99).json().get("stream_id"), 60)
        assert {f"i{number}" for number in (*acknowledged, 99)} <= items_of(service, last)
        row.n_trials, row.n_acknowledged = row.n_trials + 1, row.n_acknowledged + len(acknowledged)
    finally:
        service.kill()


@pytest.mark.parametrize("point", ENOSPC_POINTS)
def test_one_write_that_fails_is_made_again(tmp_path: Path, point: str) -> None:
    """The same without a small file system, at one fsync of a commit after the other."""
    service = Service(tmp_path / "data", worker=False, backend="host", fault_at=point)
    row = results.row("one fsync of the log fails")

    def taken(number: int) -> str | None:
        stream_id: str | None = post(service, number).json().get("stream_id")
        return stream_id

    try:
        last = ""
        for number in range(4):
            last = eventually(partial(taken, number), 60)
            ask_to_commit(service.data)
            eventually(partial(is_archived, service.data, last))
        eventually(lambda: service.get("/health/ready").status_code == 200, 60)
        assert items_of(service, last) == {f"i{number}" for number in range(4)}
        assert "NEARFIELD_FAULT_AT" in service.errors.read_text()
        assert service.stop() == 0
        shutil.rmtree(service.data / "redis")
        service._environment.pop("NEARFIELD_FAULT_AT")
        service.start()
        assert items_of(service, last) == {f"i{number}" for number in range(4)}
        row.n_trials, row.n_acknowledged = row.n_trials + 1, row.n_acknowledged + 4
    finally:
        service.kill()


def test_a_frozen_redis_goes_on(tmp_path: Path) -> None:
    """For 5 s, or 60 s in the long run."""
    service = Service(tmp_path / "data", worker=False, backend="host")
    row = results.row(f"Redis frozen for {60 if results.IS_LONG else 5} s")
    try:
        acknowledged = {0} if post(service, 0).status_code == 202 else set()
        process = psutil.Process(RedisServer(service.data).pid)
        process.suspend()
        until_s, number = time.monotonic() + (60 if results.IS_LONG else 5), 1
        while time.monotonic() < until_s:
            assert post(service, number).status_code == 503
            number += 1
        process.resume()
        resumed_s = time.monotonic()
        eventually(lambda: service.get("/health/ready").status_code == 200, 60)
        row.ready_s.append(time.monotonic() - resumed_s)
        last = eventually(lambda: post(service, number).json().get("stream_id"), 60)
        assert {f"i{one}" for one in (*acknowledged, number)} <= items_of(service, last)
        row.n_trials, row.n_acknowledged = row.n_trials + 1, row.n_acknowledged + 2
    finally:
        service.kill()


def test_a_clock_that_goes_backward_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours by a day, and that of Redis: an entry from tomorrow stands for what it gave out before it was set back."""
    data = tmp_path / "data"
    with serving(data, backend="host", worker=False) as service:
        service.rate(("ann", "x", 1.0))
        tomorrow_ms = int((time.time() + 86400) * 1000)
        with redis.Redis.from_url(RedisServer(data).url) as client:
            rated = b'[{"user":"ann","item":"x","rating":2,"timestamp":1}]'
            client.xadd(RATINGS, {"v": "1", "ratings": rated}, id=f"{tomorrow_ms}-0")
        today = time.time
        monkeypatch.setattr(time, "time", lambda: today() - 86400)
        last = service.rate(("ann", "x", 3.0))
        assert last > f"{tomorrow_ms}-0"
        assert service.get("/users/ann/ratings", wait_for=last).json()["ratings"][0]["rating"] == 3.0
        assert service.get("/health/ready").status_code == 200
        ask_to_commit(data)
        service.rate(("ann", "x", 4.0))
    shutil.rmtree(data / "redis")  # from the log alone, which ends a day ahead: new ids come after it
    with serving(data, backend="host", worker=False) as service:
        assert service.get("/users/ann/ratings").json()["ratings"][0]["rating"] == 4.0
        later = service.rate(("ann", "x", 5.0))
        assert later > last
        assert service.get("/users/ann/ratings", wait_for=later).json()["ratings"][0]["rating"] == 5.0
    results.row("clock set back by a day").n_trials += 1


def test_an_altered_part_of_a_snapshot_never_answers(tmp_path: Path) -> None:
    """Each file, at random places, flipped or cut: refused by name, and the other models answer."""
    folder = tmp_path / "data" / "snapshots"
    shutil.copytree(OLD / "snapshots", folder)
    draw = random.Random(results.TRIALS)
    row = results.row("one byte of a snapshot flipped, or its end cut off")
    for version in snapshot.versions(folder):
        for path in sorted((folder / version).iterdir()):
            intact = path.read_bytes()
            for number in range(max(12, results.TRIALS // 4)):
                altered = bytearray(intact)
                if number % 3:
                    altered[draw.randrange(len(altered))] ^= 1 << draw.randrange(8)
                else:
                    del altered[draw.randrange(len(altered)) :]
                path.write_bytes(altered)
                with contextlib.suppress(ServiceError):
                    snapshot.verify(folder, version)
                    assert path.name == "manifest.sha256" and altered.strip() == intact.strip(), path
                row.n_trials += 1
            path.write_bytes(intact)
        snapshot.verify(folder, version)
