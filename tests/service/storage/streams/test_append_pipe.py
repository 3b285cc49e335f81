from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from service.base.errors import StreamUnavailable
from service.storage.streams import append_pipe
from service.storage.streams.append_pipe import RedisPipe
from service.storage.streams.redis_server import RedisServer

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def test_replies_come_back_in_order_of_sending(redis_url: str) -> None:
    async def scenario() -> list[object]:
        pipe = await RedisPipe.open(redis_url)
        replies = await asyncio.gather(*(pipe.call("INCR", "n") for _ in range(500)), pipe.call("GET", "none"))
        pipe.close()
        await asyncio.sleep(0)
        return replies

    assert asyncio.run(scenario()) == [*range(1, 501), None]


def test_a_refused_command_leaves_the_connection_usable(redis_url: str) -> None:
    async def scenario() -> None:
        pipe = await RedisPipe.open(redis_url)
        with pytest.raises(StreamUnavailable, match="refused NOPE"):
            await pipe.call("NOPE")
        assert await pipe.call("PING") == b"PONG"
        pipe.close()
        await asyncio.sleep(0)
        assert not pipe.is_open
        with pytest.raises(StreamUnavailable, match="closed"):
            await pipe.call("PING")

    asyncio.run(scenario())


def test_wrong_credentials(redis_server: RedisServer) -> None:
    with pytest.raises(StreamUnavailable, match="AUTH"):
        asyncio.run(RedisPipe.open(f"unix://nobody:wrong@{redis_server.socket}"))


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
        pipe = await RedisPipe.open(url)
        pipe.close()
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
    monkeypatch.setattr(append_pipe, "REPLY_TIMEOUT_S", 0.1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.read(1000)
            writer.write(b"+OK\r\n")
        await reader.read()
        writer.close()

    async def use(url: str) -> None:
        pipe = await RedisPipe.open(url)
        waiting = [asyncio.create_task(pipe.call("PING")) for _ in range(3)]
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(result, StreamUnavailable)
        assert not pipe.is_open

    asyncio.run(against(serve, use))
