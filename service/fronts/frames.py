"""`Frames`: messages over a Unix socket, all those of one turn of the event loop in one write.

A frame is its length (4 bytes, big-endian) and a msgpack list of messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec

LENGTH_BYTES = 4
MAX_FRAME_BYTES = 256 << 20  # a longer frame is an error of the other side: 64 of the longest answers
MAX_UNSENT_BYTES = 64 << 20  # of a side that does not read; then the connection ends
_encode = msgspec.msgpack.Encoder().encode


class Frames(asyncio.Protocol):
    """One connection.

    Args:
        decode: makes a list of messages from bytes.
        receive: called with each list.
        lost: called once, when the connection has ended.
    """

    def __init__(
        self,
        decode: Callable[[bytes | bytearray], list[Any]],
        receive: Callable[[list[Any]], None],
        lost: Callable[[], None],
    ) -> None:
        self._decode, self._receive, self._lost = decode, receive, lost
        self._input = bytearray()
        self._output: list[Any] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, message: Any) -> None:
        """Send `message` at the end of this turn of the event loop; it is dropped if the connection is closed."""
        if not self._output:
            self._loop.call_soon(self._flush)
        self._output.append(message)

    def close(self) -> None:
        """End the connection; messages that were sent before still go."""
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
        messages, self._output = self._output, []
        if self._transport is None or self._transport.is_closing():
            return
        body = _encode(messages)
        self._transport.write(len(body).to_bytes(LENGTH_BYTES) + body)
        if self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._transport.abort()
