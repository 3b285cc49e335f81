"""`Writes`: what is refused, what is counted, and that nothing is written that must not be acknowledged."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import redis

from service.base.errors import Overloaded, ServiceError
from service.processes.writes import Writes
from service.storage.errors import LogUnavailable, StreamUnavailable
from service.storage.events import Fields, StreamId
from service.storage.streams.stream_writer import StreamWriter
from service.storage.streams.tail import Tail
from service.telemetry.metrics import Metrics
from service.telemetry.trace_context import Trace
from tests.service.keys import RATINGS
from tests.service.waiting import soon

FIELDS: Fields = {b"v": b"1", b"ratings": b"[]"}
MAX_WAITING = 2


class Server:
    """Says whether the server may be written to, when `may_go_on` is set."""

    def __init__(self) -> None:
        self.error: ServiceError | None = None
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def verify(self, run_id: str) -> None:
        await self.may_go_on.wait()
        if self.error is not None:
            raise self.error


def ignored(stream_id: StreamId, trace: Trace) -> None:
    """No request of these tests is recorded."""


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def refused(metrics: Metrics, reason: str) -> float:
    value = metrics.registry.get_sample_value("nearfield_writes_refused_total", {"reason": reason})
    return value or 0.0


def writing(
    url: str,
    metrics: Metrics,
    check: Callable[[Writes, Server], Awaitable[None]],
    refusal: Callable[[], ServiceError | None] = lambda: None,
) -> None:
    async def run() -> None:
        server = Server()
        writer = StreamWriter(url, server.verify, Tail())
        try:
            await check(Writes(writer, refusal, MAX_WAITING, metrics, ignored), server)
        finally:
            writer.close()
            await asyncio.sleep(0)  # the event loop releases the socket

    asyncio.run(run())


def test_entries_are_written_and_get_their_ids(metrics: Metrics, redis_url: str, client: redis.Redis) -> None:
    async def check(writes: Writes, server: Server) -> None:
        ids = [await writes.append(FIELDS) for _ in range(3)]
        entries = client.xrange(RATINGS)
        assert entries is not None
        assert [entry[0] for entry in entries] == list(map(str, ids))

    writing(redis_url, metrics, check)
    assert "nearfield_writes_refused_total{" not in metrics.text().decode()


def test_a_refusal_writes_nothing_and_is_counted_by_its_reason(
    metrics: Metrics, redis_url: str, client: redis.Redis
) -> None:
    async def check(writes: Writes, server: Server) -> None:
        for _ in range(2):
            with pytest.raises(LogUnavailable, match="disk full"):
                await writes.append(FIELDS)

    writing(redis_url, metrics, check, lambda: LogUnavailable("disk full"))
    assert not client.exists(RATINGS)
    assert refused(metrics, LogUnavailable.slug) == 2


def test_an_error_of_the_writer_is_counted_too(metrics: Metrics, redis_url: str) -> None:
    async def check(writes: Writes, server: Server) -> None:
        server.error = StreamUnavailable("gone")
        with pytest.raises(StreamUnavailable):
            await writes.append(FIELDS)

    writing(redis_url, metrics, check)
    assert refused(metrics, StreamUnavailable.slug) == 1


def test_more_than_may_wait_are_refused_and_the_others_go_on(
    metrics: Metrics, redis_url: str, client: redis.Redis
) -> None:
    async def check(writes: Writes, server: Server) -> None:
        def n_waiting() -> float | None:
            return metrics.registry.get_sample_value("nearfield_queue_length", {"queue": "appends"})

        server.may_go_on.clear()
        waiting = [asyncio.create_task(writes.append(FIELDS)) for _ in range(MAX_WAITING)]
        await soon(lambda: n_waiting() == MAX_WAITING)
        with pytest.raises(Overloaded):
            await writes.append(FIELDS)
        server.may_go_on.set()
        ids = [*await asyncio.gather(*waiting), await writes.append(FIELDS)]
        assert ids == sorted(set(ids))
        assert len(ids) == client.xlen(RATINGS) == MAX_WAITING + 1

    writing(redis_url, metrics, check)
    assert refused(metrics, Overloaded.slug) == 1
