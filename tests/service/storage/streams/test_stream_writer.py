"""Every connection of a `StreamWriter` is verified before its first entry; a `Connection` replies in order."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psutil
import pytest
import redis

from service.base.errors import NotReady
from service.storage.errors import StreamUnavailable
from service.storage.events import Fields
from service.storage.streams import stream_writer
from service.storage.streams.redis_server import RedisServer
from service.storage.streams.stream_writer import Connection, StreamWriter
from service.storage.streams.tail import Tail
from tests.service.keys import NEVER, RATINGS
from tests.service.waiting import soon

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
FIELDS: Fields = {b"v": b"1", b"ratings": b"[]"}


class Verifier:
    """Keeps the run id of each server that it is asked about, and refuses if it is told to."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.error: Exception | None = None
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def __call__(self, run_id: str) -> None:
        self.seen.append(run_id)
        await self.may_go_on.wait()
        if self.error is not None:
            raise self.error


def appending(url: str, check: Callable[[StreamWriter, Verifier], Any]) -> None:
    async def run() -> None:
        verifier = Verifier()
        writer = StreamWriter(url, verifier, Tail())
        try:
            await check(writer, verifier)
        finally:
            writer.close()
            await asyncio.sleep(0)  # the event loop releases the socket

    asyncio.run(run())


def test_entries_are_appended_and_their_server_verified_once(redis_url: str, client: redis.Redis) -> None:
    async def check(writer: StreamWriter, verifier: Verifier) -> None:
        ids = await asyncio.gather(*(writer.append(FIELDS) for _ in range(20)))
        assert len(set(ids)) == 20
        await writer.check_writable()
        assert verifier.seen == [client.info("server")["run_id"]]

    appending(redis_url, check)
    assert client.xlen(RATINGS) == 20
    assert not client.exists(NEVER)


def test_what_verification_refuses_is_not_written(redis_url: str, client: redis.Redis) -> None:
    async def check(writer: StreamWriter, verifier: Verifier) -> None:
        verifier.error = NotReady("the engine starts")
        for _ in range(3):
            with pytest.raises(NotReady, match="starts"):
                await writer.append(FIELDS)
        assert len(verifier.seen) == 3, "each attempt asks again"
        assert client.xlen(RATINGS) == 0
        verifier.error = None
        await writer.append(FIELDS)

    appending(redis_url, check)
    assert client.xlen(RATINGS) == 1


def test_after_a_reconnection_the_server_is_verified_again(redis_url: str, client: redis.Redis) -> None:
    async def check(writer: StreamWriter, verifier: Verifier) -> None:
        await writer.append(FIELDS)
        writer.reconnect()
        verifier.error = NotReady("another engine")
        with pytest.raises(NotReady):
            await writer.append(FIELDS)
        verifier.error = None
        await writer.append(FIELDS)
        assert len(verifier.seen) == 3

    appending(redis_url, check)
    assert client.xlen(RATINGS) == 2


def test_closing_while_a_connection_opens_fails_its_callers_without_cancelling_them(redis_url: str) -> None:
    async def check(writer: StreamWriter, verifier: Verifier) -> None:
        verifier.may_go_on.clear()
        waiting = [asyncio.create_task(writer.append(FIELDS)) for _ in range(3)]
        await soon(lambda: verifier.seen)
        writer.close()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [repr(error) for error in found] == 3 * [repr(StreamUnavailable("Redis connection is closed"))]
        assert writer.n_waiting == 0

    appending(redis_url, check)


def test_a_caller_that_gives_up_does_not_end_the_opening_for_the_others(redis_url: str, client: redis.Redis) -> None:
    async def check(writer: StreamWriter, verifier: Verifier) -> None:
        verifier.may_go_on.clear()
        first, second = (asyncio.create_task(writer.append(FIELDS)) for _ in range(2))
        await soon(lambda: verifier.seen)
        first.cancel()
        await asyncio.sleep(0)
        verifier.may_go_on.set()
        await second
        assert first.cancelled()
        assert len(verifier.seen) == 1

    appending(redis_url, check)
    assert client.xlen(RATINGS) == 1


def test_a_server_that_was_replaced_has_another_id(redis_server: RedisServer, redis_url: str) -> None:
    async def check(writer: StreamWriter, verifier: Verifier) -> None:
        await writer.append(FIELDS)
        with redis.Redis.from_url(redis_url) as client:
            client.shutdown(nosave=True)
        for _ in range(6000):
            try:
                await writer.append(FIELDS)
                break
            except StreamUnavailable:
                await asyncio.sleep(0.01)
        first, *_, last = verifier.seen
        assert first != last
        assert len(first) == len(last) == 40

    appending(redis_url, check)
    assert redis_server.is_alive


async def seconds_of_refusal(writer: StreamWriter) -> float:
    begun_s = time.monotonic()
    with pytest.raises(StreamUnavailable):
        await writer.append(FIELDS)
    return time.monotonic() - begun_s


def test_while_one_connects_again_all_others_are_refused_at_once(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_writer, "CALL_TIMEOUT_S", 1000.0)  # who waits, waits for `may_go_on`

    async def check(writer: StreamWriter, verifier: Verifier) -> None:
        verifier.error = StreamUnavailable("Redis has not answered")
        await seconds_of_refusal(writer)
        verifier.may_go_on.clear()
        first = asyncio.create_task(seconds_of_refusal(writer))
        await soon(lambda: len(verifier.seen) == 2)
        async with asyncio.timeout(60):
            await asyncio.gather(*(seconds_of_refusal(writer) for _ in range(5)))
        assert not first.done()
        verifier.may_go_on.set()
        await first

    appending(redis_url, check)


def test_after_a_call_without_a_reply_one_connects_again_and_all_others_are_refused_at_once(
    redis_url: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_writer, "CALL_TIMEOUT_S", 1.0)

    async def check(writer: StreamWriter, verifier: Verifier) -> None:
        await writer.append(FIELDS)
        process = psutil.Process(redis_server.pid)
        process.suspend()
        try:
            assert await seconds_of_refusal(writer) >= 1.0
            writer.reconnect()  # as after five seconds
            first = asyncio.create_task(seconds_of_refusal(writer))
            await soon(lambda: writer._opening is not None and not writer._opening.done())
            await asyncio.gather(*(seconds_of_refusal(writer) for _ in range(5)))
            assert not first.done()
            assert await first >= 1.0
        finally:
            process.resume()

    appending(redis_url, check)


def test_the_time_of_a_call_counts_from_before_it_connects(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_writer, "CALL_TIMEOUT_S", 0.2)

    async def check(writer: StreamWriter, verifier: Verifier) -> None:
        verifier.may_go_on.clear()
        assert 0.2 <= await seconds_of_refusal(writer) < 60

    appending(redis_url, check)


def test_replies_come_back_in_order_of_sending(redis_url: str) -> None:
    async def scenario() -> list[object]:
        connection = await Connection.open(redis_url)
        replies = await asyncio.gather(
            *(connection.call("INCR", "n") for _ in range(500)), connection.call("GET", "none")
        )
        connection.close()
        await asyncio.sleep(0)
        return replies

    assert asyncio.run(scenario()) == [*range(1, 501), None]


def test_a_refused_command_leaves_the_connection_usable(redis_url: str) -> None:
    async def scenario() -> None:
        connection = await Connection.open(redis_url)
        with pytest.raises(StreamUnavailable, match="refused NOPE"):
            await connection.call("NOPE")
        assert await connection.call("PING") == b"PONG"
        connection.close()
        await asyncio.sleep(0)
        assert not connection.is_open
        with pytest.raises(StreamUnavailable, match="closed"):
            await connection.call("PING")

    asyncio.run(scenario())


def test_the_end_of_a_connection_is_told_once_and_leaves_no_timer(redis_url: str) -> None:
    async def scenario(n_calls: int) -> None:
        ended: list[bool] = []
        connection = await Connection.open(redis_url, lambda: ended.append(True))
        for _ in range(n_calls):
            await connection.call("PING")
        timer = connection._watchdog
        assert (timer is None) == (n_calls == 0)
        assert ended == []
        connection.close()
        await soon(lambda: ended)
        assert timer is None or timer.cancelled()
        connection.close()
        await asyncio.sleep(0)
        assert ended == [True]

    for n_calls in (0, 1):
        asyncio.run(scenario(n_calls))


def test_wrong_credentials(redis_server: RedisServer) -> None:
    with pytest.raises(StreamUnavailable, match="AUTH"):
        asyncio.run(Connection.open(f"unix://nobody:wrong@{redis_server.socket}"))


async def against(serve: Serve, use: Callable[[str], Awaitable[None]]) -> None:
    """Let `use` talk to a server of our own on a loopback port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        await use(f"redis://me:secret@{host}:{port}/3")


def test_the_url_says_how_to_log_in() -> None:
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            received.extend(await reader.read(1000))
            writer.write(b"+OK\r\n")
        writer.close()

    async def use(url: str) -> None:
        connection = await Connection.open(url)
        connection.close()
        await asyncio.sleep(0)

    asyncio.run(against(serve, use))
    assert [part for part in received.split(b"\r\n") if part[:1].isalnum()] == [
        b"AUTH",
        b"me",
        b"secret",
        b"SELECT",
        b"3",
    ]


def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_writer, "REPLY_TIMEOUT_S", 0.1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.read(1000)
            writer.write(b"+OK\r\n")
        await reader.read()
        writer.close()

    async def use(url: str) -> None:
        connection = await Connection.open(url)
        waiting = [asyncio.create_task(connection.call("PING")) for _ in range(3)]
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(result, StreamUnavailable)
        assert not connection.is_open

    asyncio.run(against(serve, use))
