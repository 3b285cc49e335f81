"""`GuardedTransport`: the transport that the protocol behind a `ConnectionGuard` gets; and its present connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Protocol


class Guard(Protocol):
    """The guard as the transport sees it.

    Attributes:
        protocol: the protocol behind the guard.
    """

    protocol: asyncio.Protocol

    def hold_up(self, is_held_up: bool) -> None:
        """The protocol pauses or resumes its input."""

    def close(self) -> None:
        """Close when all is written."""

    def note_answer(self) -> None:
        """The application has answered a request that was passed on to the protocol."""


current: ContextVar[Guard | None] = ContextVar("connection", default=None)  # of the request that is being answered


def note_answer() -> None:
    """Tell the present connection that the application has answered; call it once a request."""
    guard = current.get()
    if guard is not None:
        guard.note_answer()


class GuardedTransport(asyncio.Transport):
    """Passes answers straight to the transport below: `write` is the method of that transport, at no extra cost."""

    def __init__(self, guard: Guard, transport: asyncio.Transport) -> None:
        super().__init__()
        self._guard, self._transport = guard, transport
        self.write = transport.write  # type: ignore[method-assign]
        self.is_closing = transport.is_closing  # type: ignore[method-assign]

    def call_at_write(self, callback: Callable[[], None]) -> None:
        """Call `callback` before the next `write`, once."""

        def write(data: bytes | bytearray | memoryview) -> None:
            self.write = self._transport.write  # type: ignore[method-assign]
            callback()
            self.write(data)

        self.write = write  # type: ignore[method-assign]

    def end(self) -> None:
        """Drop all further writes of the protocol."""
        self.write = _drop  # type: ignore[method-assign]
        self.is_closing = _true  # type: ignore[method-assign]

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write all items."""
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """See `ConnectionGuard.close`."""
        self._guard.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """Pause the input of the protocol."""
        self._guard.hold_up(True)

    def resume_reading(self) -> None:
        """Resume the input of the protocol."""
        self._guard.hold_up(False)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Information of the transport below."""
        return self._transport.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol behind the guard."""
        return self._guard.protocol

    def get_write_buffer_size(self) -> int:
        """Bytes that are written but not sent."""
        return self._transport.get_write_buffer_size()


def _drop(data: bytes | bytearray | memoryview) -> None:
    """Ignore `data`: the connection has ended."""


def _true() -> bool:
    return True
