import threading
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from service.base import threads
from service.engine.learner import Learner
from service.engine.pending_events import MAX_WAITING
from service.engine.queries import UserRatings
from service.engine.readiness import Stages
from service.storage.errors import StreamUnavailable
from service.storage.events import ZERO, Entry, RatingEvent, StreamId, encode_ratings
from service.storage.log.rating_log import RatingLog
from service.storage.streams.redis_server import RedisServer
from service.storage.streams.stream_reader import StreamReader
from tests.service.logs import commit
from tests.service.waiting import eventually
from tests.service.whole import Whole


def items_of(whole: Whole, user: str) -> set[str]:
    return {rating.item for rating in whole.ask(UserRatings(user=user)).ratings}


def test_log_and_stream_are_read_before_the_service_is_ready(redis_url: str, tmp_path: Path) -> None:
    old = Entry(StreamId(5, 0), "rating", [RatingEvent("ann", "from the log", 3.0, 0.0)])
    commit(RatingLog(tmp_path / "ratings"), [old])
    with Whole(redis_url, tmp_path) as first:
        first.archiver.stop()  # what follows stays in the stream
        last = first.rate(("ann", "from the stream", 4.0))
    with Whole(redis_url, tmp_path) as second:
        assert second.engine.as_of == last
        assert items_of(second, "ann") == {"from the log", "from the stream"}


def test_it_is_not_ready_while_entries_are_only_queued(whole: Whole) -> None:
    """An empty read says that all was read, and not that the engine has learned it."""
    last = whole.rate(("ann", "x", 4.0))
    slow: Any = SimpleNamespace(stages=Stages(), as_of=ZERO, learn=lambda entries, gives_up: None, fail=print)
    learner, reader = Learner(slow, whole.stream, whole.log), StreamReader(whole.stream, whole.log, ZERO)
    for _ in range(3):
        learner.step(reader)
    assert reader.cursor == last
    assert not slow.stages.is_done("stream")
    slow.as_of = last
    learner.step(reader)
    assert slow.stages.is_done("stream")


def test_trimmed_entries_come_from_the_log(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path) as first:
        last = first.rate(("ann", "x", 4.0), ("ann", "y", 4.0))
        first.stream.request_commit(last)
        eventually(lambda: first.log.last_id() >= last)
        first.stream.trim(last)
    with Whole(redis_url, tmp_path) as second:
        assert second.engine.as_of == last
        assert items_of(second, "ann") == {"x", "y"}


def test_bad_entries_do_not_stop_it(whole: Whole) -> None:
    before = whole.rate(("ann", "x", 4.0))
    whole._do(whole.stream.writer.append({b"v": b"1", b"ratings": b"{}"}))
    after = whole.rate(("ann", "y", 4.0))
    assert after > before
    assert items_of(whole, "ann") == {"x", "y"}


def test_an_entry_of_a_newer_version_makes_it_unready(whole: Whole) -> None:
    """Who passed it over would have other ratings than a process that can read it."""
    before = whole.rate(("ann", "x", 4.0))
    whole._do(whole.stream.writer.append({b"v": b"2", b"ratings": b"[]"}))
    eventually(lambda: not whole.engine.readiness.ready)
    assert "upgrade this process" in str(whole.engine.readiness.reason)
    assert whole.engine.as_of == before
    assert items_of(whole, "ann") == {"x"}


@pytest.mark.parametrize("value", ["tomorrow", "9223372036854775808-0"])
def test_a_bad_trimmed_position_is_reported_and_heals(whole: Whole, client: redis.Redis, value: str) -> None:
    client.set("nearfield:trimmed", value)
    eventually(lambda: not whole.engine.readiness.ready)
    assert "Redis key nearfield:trimmed" in str(whole.engine.readiness.reason)
    client.delete("nearfield:trimmed")
    eventually(lambda: whole.engine.readiness.ready)
    whole.rate(("ann", "x", 4.0))


def test_it_comes_back_when_redis_does(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "server")
    server.start()
    try:
        with Whole(server.url, tmp_path) as whole:
            whole.rate(("ann", "x", 4.0))
            server.stop()
            eventually(lambda: not whole.engine.readiness.ready)
            assert "redis" in str(whole.engine.readiness.reason).lower()
            assert items_of(whole, "ann") == {"x"}
            with pytest.raises(StreamUnavailable):
                whole.rate(("ann", "y", 4.0))
            server = RedisServer(tmp_path / "server")
            server.start()
            eventually(lambda: whole.engine.readiness.ready)
            whole.rate(("ann", "y", 4.0))
            assert items_of(whole, "ann") == {"x", "y"}
    finally:
        server.stop()


def test_it_ends_while_the_engine_has_no_room(whole: Whole) -> None:
    """Else SIGTERM, while more has come than can be learned, would be obeyed when all of it is."""
    go_on = threading.Event()

    def busy() -> Generator[None]:
        go_on.wait(200)
        yield

    working = whole.engine.run_slices(busy())
    try:
        for _ in range(MAX_WAITING + 10):
            whole._do(
                whole.stream.writer.append(encode_ratings([RatingEvent("u", f"i{n}", 1.0, 1.0) for n in range(1000)]))
            )
        eventually(lambda: len(whole.engine._pending_events) == MAX_WAITING)
        stopping = threads.helper("stopping", whole.learner.stop)
        stopping.join(60)
        assert not stopping.is_alive()
    finally:
        go_on.set()
        working.result(60)
