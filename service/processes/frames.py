"""`Frames`: messages over a Unix socket, all those of one turn of the event loop in one write; and `LocalFrames`.

A side that sends often may gather for longer: a frame costs the receiver about 15 µs, each message in it 4 µs.

A frame is its length (4 bytes, big-endian) and a msgpack list of messages. A frame of many long messages is sent before
the end of the turn, so that no frame is much longer than its longest message.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any, cast

import msgspec

LENGTH_BYTES = 4
HEAD_BYTES = LENGTH_BYTES + 5  # and of a list with up to 2^32 entries: its type and their number
FULL_FRAME_BYTES = 4 << 20  # a frame of this length is sent at once
MAX_FRAME_BYTES = 256 << 20  # a longer frame is an error of the other side; the longest answer has some 10 MB
MAX_UNSENT_BYTES = 64 << 20  # with more of them waiting, a side must ask and answer nothing more
_LIST = b"\xdd"  # msgpack's array 32
_encode_into = msgspec.msgpack.Encoder().encode_into


Receive = Callable[[list[Any]], None]
Lost = Callable[[], None]


class Frames(asyncio.Protocol):
    """One connection between two processes.

    Args:
        decode: makes a list of messages from bytes.
        receive: called with each list.
        lost: called once, when the connection has ended.
        gather_s: shortest time in seconds between two frames; a message waits at most so long. The first one after a
            pause does not wait.
    """

    def __init__(
        self,
        decode: Callable[[bytes | bytearray], list[Any]],
        receive: Receive,
        lost: Lost,
        gather_s: float = 0.0,
    ) -> None:
        self._decode, self._receive, self._lost, self._gather_s = decode, receive, lost, gather_s
        self._flushed = -math.inf  # monotonic seconds
        self._input = bytearray()
        self._output, self._n_output = bytearray(HEAD_BYTES), 0
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_full(self) -> bool:
        """Whether the other side has left too much unread: what can be refused must be."""
        transport = self._transport
        return transport is not None and self.is_open and transport.get_write_buffer_size() > MAX_UNSENT_BYTES

    def send(self, message: Any) -> None:
        """Send `message` with others, see `gather_s`; it is dropped if the connection is closed.

        Raises:
            ValueError, TypeError, OverflowError, RecursionError: msgpack cannot hold the message, such as an integer of
                more than 64 bits or text that is not Unicode. Nothing is sent then.
        """
        n_bytes = len(self._output)
        try:
            _encode_into(message, self._output, -1)
        except BaseException:
            del self._output[n_bytes:]
            raise
        self._n_output += 1
        if len(self._output) >= FULL_FRAME_BYTES:
            self._flush()
        elif self._n_output == 1:
            wait_s = self._gather_s and self._flushed + self._gather_s - time.monotonic()
            if wait_s > 0:
                self._loop.call_later(wait_s, self._flush)
            else:
                self._loop.call_soon(self._flush)

    def close(self) -> None:
        """End the connection; messages that were sent before still go."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._lost()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop: decode each complete frame."""
        if self._input:
            self._input += data
        rest = self._input or data
        first = 0
        while len(rest) - first >= LENGTH_BYTES:
            begin = first + LENGTH_BYTES
            end = begin + int.from_bytes(rest[first:begin])
            if end - begin > MAX_FRAME_BYTES:
                self.close()
                return
            if end > len(rest):
                break
            self._receive(self._decode(rest[begin:end]))
            first = end
        if first or not self._input:
            self._input = bytearray(rest[first:])

    def _flush(self) -> None:
        """Write the messages that wait; none if they have been written already."""
        output, n_messages = self._output, self._n_output
        if not n_messages:
            return
        self._output, self._n_output = bytearray(HEAD_BYTES), 0
        self._flushed = time.monotonic()
        if self.is_open:
            length = (len(output) - LENGTH_BYTES).to_bytes(LENGTH_BYTES)
            output[:HEAD_BYTES] = length + _LIST + n_messages.to_bytes(4)
            cast("asyncio.Transport", self._transport).write(output)


class LocalFrames:
    """One side of a connection within a process, with the methods of `Frames`; hands over each message as it is.

    Args:
        receive, lost: see `Frames`.
    """

    is_full = False  # what waits here waits in the queues of both sides, which have bounds

    def __init__(self, receive: Receive, lost: Lost) -> None:
        self._receive, self._lost = receive, lost
        self._other: LocalFrames | None = None

    def join(self, other: LocalFrames) -> None:
        """Connect both sides."""
        self._other, other._other = other, self

    @property
    def is_open(self) -> bool:
        """See `Frames.is_open`."""
        return self._other is not None

    def send(self, message: Any) -> None:
        """Hand over `message` at once, within this call; it is dropped if the connection is closed."""
        if self._other is not None:
            self._other._receive([message])

    def close(self) -> None:
        """See `Frames.close`."""
        other, self._other = self._other, None
        if other is not None:
            other.close()
            asyncio.get_running_loop().call_soon(self._lost)
