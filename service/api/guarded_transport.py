"""`GuardedTransport`: what the protocol behind a `ConnectionGuard` takes for its transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol


class Guard(Protocol):
    """What the transport wants of the guard.

    Attributes:
        protocol: the one behind it.
    """

    protocol: asyncio.Protocol

    def hold_up(self, is_held_up: bool) -> None:
        """The protocol wants nothing more for now, or something again."""

    def close(self) -> None:
        """Close when everything is written."""


class GuardedTransport(asyncio.Transport):
    """Answers go straight to the transport below: `write` is that one's own method, so that it costs nothing more."""

    def __init__(self, guard: Guard, transport: asyncio.Transport) -> None:
        super().__init__()
        self._guard, self._transport = guard, transport
        self.write = transport.write  # type: ignore[method-assign]
        self.is_closing = transport.is_closing  # type: ignore[method-assign]

    def call_at_write(self, told: Callable[[], None]) -> None:
        """Call `told` before the next `write`, once."""

        def write(data: bytes | bytearray | memoryview) -> None:
            self.write = self._transport.write  # type: ignore[method-assign]
            told()
            self.write(data)

        self.write = write  # type: ignore[method-assign]

    def end(self) -> None:
        """Drop what the protocol still writes."""
        self.write = _drop  # type: ignore[method-assign]
        self.is_closing = _true  # type: ignore[method-assign]

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write all of them."""
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """See `ConnectionGuard.close`."""
        self._guard.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """Hand nothing on for now."""
        self._guard.hold_up(True)

    def resume_reading(self) -> None:
        """Go on handing on."""
        self._guard.hold_up(False)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the transport below knows."""
        return self._transport.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol behind the guard."""
        return self._guard.protocol

    def get_write_buffer_size(self) -> int:
        """Bytes that are written and not sent."""
        return self._transport.get_write_buffer_size()


def _drop(data: bytes | bytearray | memoryview) -> None:
    """The connection has ended."""


def _true() -> bool:
    return True
