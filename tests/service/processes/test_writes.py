"""`Writes`: what is refused, what is counted, and that nothing is written that must not be acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from service.base.errors import LogUnavailable, Overloaded, ServiceError, StreamUnavailable
from service.processes.writes import Writes
from service.storage.events import Fields, StreamId
from service.telemetry.metrics import Metrics
from service.telemetry.trace_context import Trace

FIELDS: Fields = {b"v": b"1"}
MAX_WAITING = 2


class Entries:
    """A stream in memory, which fails or waits if it is told to."""

    def __init__(self) -> None:
        self.written: list[Fields] = []
        self.n_appending = 0
        self.error: ServiceError | None = None
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def append(self, fields: Fields) -> StreamId:
        self.n_appending += 1
        try:
            await self.may_go_on.wait()
        finally:
            self.n_appending -= 1
        if self.error is not None:
            raise self.error
        self.written.append(fields)
        return StreamId(len(self.written), 0)


def ignored(stream_id: StreamId, trace: Trace) -> None:
    """No request of these tests is recorded."""


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    yield Metrics()


def refused(metrics: Metrics, reason: str) -> float:
    value = metrics.registry.get_sample_value("nearfield_writes_refused_total", {"reason": reason})
    return value or 0.0


def test_entries_are_written_and_get_their_ids(metrics: Metrics) -> None:
    async def check() -> None:
        entries = Entries()
        writes = Writes(entries, lambda: None, MAX_WAITING, metrics, ignored)
        assert [await writes.append(FIELDS) for _ in range(3)] == [StreamId(n, 0) for n in (1, 2, 3)]
        assert entries.written == [FIELDS] * 3

    asyncio.run(check())
    assert "nearfield_writes_refused_total{" not in metrics.text().decode()


def test_a_refusal_writes_nothing_and_is_counted_by_its_reason(metrics: Metrics) -> None:
    async def check() -> None:
        entries = Entries()
        writes = Writes(entries, lambda: LogUnavailable("disk full"), MAX_WAITING, metrics, ignored)
        for _ in range(2):
            with pytest.raises(LogUnavailable, match="disk full"):
                await writes.append(FIELDS)
        assert not entries.written

    asyncio.run(check())
    assert refused(metrics, LogUnavailable.slug) == 2


def test_an_error_of_the_stream_is_counted_too(metrics: Metrics) -> None:
    async def check() -> None:
        entries = Entries()
        entries.error = StreamUnavailable("gone")
        with pytest.raises(StreamUnavailable):
            await Writes(entries, lambda: None, MAX_WAITING, metrics, ignored).append(FIELDS)

    asyncio.run(check())
    assert refused(metrics, StreamUnavailable.slug) == 1


def test_more_than_may_wait_are_refused_and_the_others_go_on(metrics: Metrics) -> None:
    async def check() -> None:
        entries = Entries()
        entries.may_go_on.clear()
        writes = Writes(entries, lambda: None, MAX_WAITING, metrics, ignored)
        waiting = [asyncio.create_task(writes.append(FIELDS)) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        assert metrics.registry.get_sample_value("nearfield_queue_length", {"queue": "appends"}) == MAX_WAITING
        with pytest.raises(Overloaded):
            await writes.append(FIELDS)
        entries.may_go_on.set()
        assert await asyncio.gather(*waiting) == [StreamId(1, 0), StreamId(2, 0)]
        assert await writes.append(FIELDS) == StreamId(3, 0)

    asyncio.run(check())
    assert refused(metrics, Overloaded.slug) == 1
