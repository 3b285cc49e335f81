"""An `Offering` gives each run of a server what its process has written, until that run is verified."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import redis

from service.settings.keyspace import DEFAULT
from service.storage.events import StreamId
from service.storage.streams import offering
from service.storage.streams.offering import Offering
from service.storage.streams.redis_client import text_of
from service.storage.streams.tail import Tail
from tests.service.waiting import soon

WRITTEN = [(StreamId(5, 0), {b"v": b"1", b"ratings": b"[]"}), (StreamId(7, 1), {b"v": b"1", b"ratings": b"[1]"})]
IDS = {"5-0", "7-1"}


def offered(url: str, check: Callable[[Offering], Awaitable[None]]) -> None:
    async def run() -> None:
        tail = Tail()
        tail.note(WRITTEN)
        offers = Offering(url, tail, DEFAULT)
        offers.start()
        try:
            await check(offers)
        finally:
            offers.close()
            await asyncio.sleep(0)  # the event loop releases the socket

    asyncio.run(run())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offering, "LOOK_S", 0.01)


def test_what_was_written_is_offered_until_the_server_is_verified(redis_url: str, client: redis.Redis) -> None:
    async def check(offers: Offering) -> None:
        await soon(lambda: set(map(text_of, client.hkeys(DEFAULT.lost))) == IDS)
        assert 0 < client.ttl(DEFAULT.lost) <= 60
        client.delete(DEFAULT.lost)  # who verifies it has written the entries again, and others may offer yet
        await soon(lambda: client.exists(DEFAULT.lost))
        client.set(DEFAULT.verified, client.info("server")["run_id"])
        client.delete(DEFAULT.lost)
        await asyncio.sleep(0.1)
        assert not client.exists(DEFAULT.lost)

    client.delete(DEFAULT.verified)
    offered(redis_url, check)


def test_a_server_that_was_emptied_is_offered_them_when_a_connection_has_ended(
    redis_url: str, client: redis.Redis
) -> None:
    async def check(offers: Offering) -> None:
        await soon(lambda: offers._connection)
        await asyncio.sleep(0.1)
        assert not client.exists(DEFAULT.lost)
        client.flushdb()
        offers.look_again()
        await soon(lambda: set(map(text_of, client.hkeys(DEFAULT.lost))) == IDS)

    assert client.get(DEFAULT.verified) == client.info("server")["run_id"]
    offered(redis_url, check)
