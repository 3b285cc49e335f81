"""`Appender` against a real server: every connection is verified before its first entry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import redis

from service.base.errors import NotReady, StreamUnavailable
from service.storage.events import Fields
from service.storage.streams.append_pipe import RedisPipe
from service.storage.streams.appender import Appender, run_id_of
from service.storage.streams.redis_server import RedisServer
from service.storage.streams.tail import Tail
from tests.service.keys import NEVER, RATINGS
from tests.service.waiting import soon

FIELDS: Fields = {b"v": b"1", b"ratings": b"[]"}


class Verifier:
    """Keeps the run id of each server that it is asked about, and refuses if it is told to."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.error: Exception | None = None
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def __call__(self, pipe: RedisPipe) -> None:
        self.seen.append(await run_id_of(pipe))
        await self.may_go_on.wait()
        if self.error is not None:
            raise self.error


def appending(url: str, check: Callable[[Appender, Verifier], Any]) -> None:
    async def run() -> None:
        verifier = Verifier()
        appender = Appender(url, verifier, Tail())
        try:
            await check(appender, verifier)
        finally:
            appender.close()
            await asyncio.sleep(0)  # the event loop releases the socket

    asyncio.run(run())


def test_entries_are_appended_and_their_server_verified_once(redis_url: str, client: redis.Redis) -> None:
    async def check(appender: Appender, verifier: Verifier) -> None:
        ids = await asyncio.gather(*(appender.append(FIELDS) for _ in range(20)))
        assert len(set(ids)) == 20
        await appender.check_writable()
        assert verifier.seen == [client.info("server")["run_id"]]

    appending(redis_url, check)
    assert client.xlen(RATINGS) == 20
    assert not client.exists(NEVER)


def test_what_verification_refuses_is_not_written(redis_url: str, client: redis.Redis) -> None:
    async def check(appender: Appender, verifier: Verifier) -> None:
        verifier.error = NotReady("the engine starts")
        for _ in range(3):
            with pytest.raises(NotReady, match="starts"):
                await appender.append(FIELDS)
        assert len(verifier.seen) == 3, "each attempt asks again"
        assert client.xlen(RATINGS) == 0
        verifier.error = None
        await appender.append(FIELDS)

    appending(redis_url, check)
    assert client.xlen(RATINGS) == 1


def test_after_a_reconnection_the_server_is_verified_again(redis_url: str, client: redis.Redis) -> None:
    async def check(appender: Appender, verifier: Verifier) -> None:
        await appender.append(FIELDS)
        appender.reconnect()
        verifier.error = NotReady("another engine")
        with pytest.raises(NotReady):
            await appender.append(FIELDS)
        verifier.error = None
        await appender.append(FIELDS)
        assert len(verifier.seen) == 3

    appending(redis_url, check)
    assert client.xlen(RATINGS) == 2


def test_closing_while_a_connection_opens_fails_its_callers_without_cancelling_them(redis_url: str) -> None:
    async def check(appender: Appender, verifier: Verifier) -> None:
        verifier.may_go_on.clear()
        waiting = [asyncio.create_task(appender.append(FIELDS)) for _ in range(3)]
        await soon(lambda: verifier.seen)
        appender.close()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in found] == [StreamUnavailable] * 3
        assert appender.n_appending == 0

    appending(redis_url, check)


def test_a_caller_that_gives_up_does_not_end_the_opening_for_the_others(redis_url: str, client: redis.Redis) -> None:
    async def check(appender: Appender, verifier: Verifier) -> None:
        verifier.may_go_on.clear()
        first, second = (asyncio.create_task(appender.append(FIELDS)) for _ in range(2))
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
    async def check(appender: Appender, verifier: Verifier) -> None:
        await appender.append(FIELDS)
        with redis.Redis.from_url(redis_url) as client:
            client.shutdown(nosave=True)
        for _ in range(2000):
            try:
                await appender.append(FIELDS)
                break
            except StreamUnavailable:
                await asyncio.sleep(0.01)
        first, *_, last = verifier.seen
        assert first != last
        assert len(first) == len(last) == 40

    appending(redis_url, check)
    assert redis_server.is_alive
