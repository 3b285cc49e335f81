"""An external Redis is replaced under load: no front writes to a server that the engine has not verified."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from service.settings.settings import AppendFsync
from service.storage.events import ZERO, StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.streams.redis_server import RedisServer
from tests.service.keys import RATINGS
from tests.service.processes.load import N_CLIENTS, SOON_S, Load
from tests.service.processes.service import FrontService
from tests.service.waiting import eventually


class External:
    """A server of another folder, and those that replace it under its address."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._start("always")
        self.url = self._server.url

    def _start(self, appendfsync: AppendFsync) -> None:
        self._server = RedisServer(self._place, appendfsync)
        self._server.start()

    def replace(self, appendfsync: AppendFsync = "always", *, is_empty: bool = False) -> None:
        self.stop()
        if is_empty:
            shutil.rmtree(self._server.folder)
        self._start(appendfsync)

    def stop(self) -> None:
        self._server.stop()

    def count(self) -> int:
        with redis.Redis.from_url(self.url) as client:
            return int(client.xlen(RATINGS))


@pytest.fixture
def external(tmp_path: Path) -> Iterator[External]:
    server = External(tmp_path / "elsewhere")
    yield server
    server.stop()


@pytest.fixture
def service(tmp_path: Path, external: External) -> Iterator[FrontService]:
    running = FrontService(tmp_path / "data", redis=external.url)
    yield running
    running.kill()


def test_no_front_writes_to_a_server_that_replaced_ours_before_it_is_verified(
    service: FrontService, external: External
) -> None:
    with Load(service) as load:
        load.more(202)
        external.replace("everysec")  # it has all entries, and would lose a second
        n_entries = external.count()
        load.more(503)
        assert external.count() == n_entries, "a front has written to a server of a weaker policy"
        body = {"user": "u", "item": "refused", "rating": 3}
        assert "appendfsync" in service.client.post("/ratings", json=body).json()["detail"]

        service.signal("engine", signal.SIGKILL)  # its successors cannot start, and are started again and again
        eventually(lambda: service.log().count('"died": "engine", "cause": "status') >= 2, SOON_S)
        load.more(503)
        assert external.count() == n_entries
        assert service.process.poll() is None

        external.replace()
        load.more(202)
        eventually(service.is_ready, SOON_S)

        log = RatingLog(service.data / "ratings")
        floor = eventually(lambda: log.last_id() if log.last_id() > ZERO else None, SOON_S)
        external.replace(is_empty=True)  # its ids must go on above those of the log
        before = set(load.acknowledged)
        load.more(202)
        after = set(load.acknowledged) - before
        assert min(map(StreamId.parse, after)) > floor
    load.check()
    assert load.n_lost_connections == 0
    eventually(lambda: not missing(service, load, after), SOON_S)
    assert service.stop() == 0


def missing(service: FrontService, load: Load, ids: set[str]) -> set[str]:
    """Items acknowledged with these ids that the service does not have."""
    users = [service.get(f"/users/u{number}/ratings", n=1000).json() for number in range(N_CLIENTS)]
    return {load.acknowledged[one] for one in ids} - {rating["item"] for user in users for rating in user["ratings"]}
