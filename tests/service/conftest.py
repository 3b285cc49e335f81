"""A real server for the whole session, emptied before each test that uses it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.streams.redis_server import RedisServer
from service.storage.streams.stream import Stream
from tests.service.keys import VERIFIED
from tests.service.whole import Whole


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """URL of an empty server, which a service has verified: nobody waits for what others may have."""
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
        client.set(VERIFIED, client.info("server")["run_id"])
    return redis_server.url


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    """The empty server as any other program sees it."""
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture
def log(tmp_path: Path) -> RatingLog:
    return RatingLog(tmp_path / "ratings")


@pytest.fixture
def stream(redis_url: str, log: RatingLog) -> Iterator[Stream]:
    stream = Stream(redis_url, floor=log.last_id)
    yield stream
    stream.close()


@pytest.fixture
def whole(redis_url: str, tmp_path: Path) -> Iterator[Whole]:
    """A running service without HTTP, on the empty server."""
    with Whole(redis_url, tmp_path) as service:
        yield service
        assert service.failures == []


@pytest.fixture
def rating_entry() -> Callable[..., Entry]:
    """rating_entry(ms, ("user", "item", 4.0), …): one entry."""

    def make(ms: int, *ratings: tuple[str, str, float | None]) -> Entry:
        return Entry(StreamId(ms, 0), "rating", [RatingEvent(u, i, r, float(ms)) for u, i, r in ratings])

    return make
