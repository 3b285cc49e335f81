"""Frames over a real pair of sockets: what is sent arrives in order, whatever its length and its pieces."""

import asyncio
import socket
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.processes import frames
from service.processes.frames import LENGTH_BYTES, Frames, LocalFrames
from tests.loadtest import virtual_time
from tests.service.waiting import soon

decode = msgspec.msgpack.Decoder().decode
TEXTS = st.lists(st.text(max_size=40), min_size=1, max_size=8)


class Side:
    """One end of a connection and what it has received: a list of messages for each frame."""

    def __init__(self, gather_s: float = 0.0) -> None:
        self.received: list[list[Any]] = []
        self.is_lost = False
        self.frames = Frames(decode, self.received.append, self._lose, gather_s)

    def _lose(self) -> None:
        self.is_lost = True

    @property
    def messages(self) -> list[Any]:
        return [message for frame in self.received for message in frame]


async def connected(gather_s: float = 0.0) -> tuple[Side, Side]:
    near, far = socket.socketpair()
    return await side_of(near, gather_s), await side_of(far)


async def side_of(end: socket.socket, gather_s: float = 0.0) -> Side:
    side = Side(gather_s)
    end.setblocking(False)
    await asyncio.get_running_loop().create_unix_connection(lambda: side.frames, sock=end)
    return side


def test_messages_of_one_turn_come_in_one_frame() -> None:
    async def check() -> None:
        one, other = await connected()
        for number in range(5):
            one.frames.send(number)
        await soon(lambda: other.messages == [0, 1, 2, 3, 4])
        assert len(other.received) == 1
        one.frames.send("next turn")
        await soon(lambda: len(other.received) == 2)
        one.frames.close()
        await soon(lambda: other.is_lost and one.is_lost)

    asyncio.run(check())


def test_messages_soon_after_a_frame_are_gathered() -> None:
    async def check() -> None:
        one, other = await connected(gather_s=0.5)
        one.frames.send("at once")
        await soon(lambda: other.received == [["at once"]])
        for number in range(5):
            one.frames.send(number)
            await asyncio.sleep(0)
        await soon(lambda: len(other.messages) == 6)
        assert other.received == [["at once"], [0, 1, 2, 3, 4]]
        one.frames.close()
        await soon(lambda: other.is_lost and one.is_lost)

    virtual_time.run(check())


@settings(deadline=None, max_examples=60)
@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(1, 50))
def test_frames_are_found_in_any_pieces(turns: list[list[str]], n_bytes: int) -> None:
    async def check() -> None:
        side = Side()
        raw = b"".join(len(body).to_bytes(LENGTH_BYTES) + body for body in map(msgspec.msgpack.encode, turns))
        for first in range(0, len(raw), n_bytes):
            side.frames.data_received(raw[first : first + n_bytes])
        assert side.received == turns

    asyncio.run(check())


def test_long_messages_come_whole_and_in_several_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FULL_FRAME_BYTES", 1 << 20)

    async def check() -> None:
        one, other = await connected()
        sent = [bytes([number]) * (400_000 + number) for number in range(40)]
        for body in sent:
            one.frames.send(body)
        one.frames.send(b"last")
        await soon(lambda: len(other.messages) == len(sent) + 1)
        assert other.messages == [*sent, b"last"]
        assert 13 <= len(other.received) <= 15
        one.frames.close()

    asyncio.run(check())


@pytest.mark.parametrize("bad", [10**30, "\ud800", object()])
def test_a_message_that_cannot_be_encoded_is_refused_and_the_others_go(bad: object) -> None:
    async def check() -> None:
        one, other = await connected()
        one.frames.send("before")
        with pytest.raises((ValueError, TypeError, OverflowError)):
            one.frames.send(["begun", bad])
        one.frames.send("after")
        await soon(lambda: other.messages == ["before", "after"])
        one.frames.close()

    asyncio.run(check())


def test_a_frame_that_is_too_long_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 1000)

    async def check() -> None:
        one, other = await connected()
        one.frames.send("short")
        await soon(lambda: other.messages == ["short"])
        one.frames.send("x" * 2000)
        await soon(lambda: one.is_lost and other.is_lost)
        assert other.messages == ["short"]

    asyncio.run(check())


def test_garbage_ends_the_connection_and_nothing_else() -> None:
    async def check() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # asyncio reports the bad frame
        near, far = socket.socketpair()
        side = await side_of(near)
        far.sendall((3).to_bytes(LENGTH_BYTES) + b"\xc1\xc1\xc1")
        await soon(lambda: side.is_lost)
        side.frames.send("to nobody")
        await asyncio.sleep(0)
        assert not side.frames.is_open
        far.close()

    asyncio.run(check())


def test_a_side_that_does_not_read_makes_the_other_one_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_UNSENT_BYTES", 1 << 20)

    async def check() -> None:
        near, far = socket.socketpair()
        side = await side_of(near)
        side.frames.send(b"x" * (8 << 20))
        await soon(lambda: side.frames.is_full)
        assert side.frames.is_open, "it may only be slow"
        reading = asyncio.create_task(asyncio.to_thread(drain, far, 8 << 20))
        await soon(lambda: not side.frames.is_full)
        assert await reading >= 8 << 20
        side.frames.close()

    asyncio.run(check())


def drain(end: socket.socket, n_bytes: int) -> int:
    n_read = 0
    while n_read < n_bytes:
        n_read += len(end.recv(1 << 20))
    end.close()
    return n_read


def test_within_a_process_messages_arrive_as_they_are_until_one_side_closes() -> None:
    async def check() -> None:
        received, lost = ([], []), []  # type: ignore[var-annotated]
        near, far = (LocalFrames(received[n].append, lambda n=n: lost.append(n)) for n in range(2))  # type: ignore[misc]
        near.send("before both are connected")
        assert not near.is_open
        near.join(far)
        assert near.is_open
        assert far.is_open
        sent = object()
        near.send(sent)
        near.send(2)
        far.send(3)
        assert received == ([[3]], [[sent], [2]])
        far.close()
        near.close()
        near.send(4)
        await soon(lambda: len(lost) == 2)
        assert sorted(lost) == [0, 1]
        assert not near.is_open
        assert not far.is_open
        assert received == ([[3]], [[sent], [2]])

    asyncio.run(check())
