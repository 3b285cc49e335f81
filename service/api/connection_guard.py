"""`ConnectionGuard`: sits between a socket and the HTTP parser and limits the share of each client.

It divides the incoming bytes into requests (`RequestStream`) and passes on one request per turn of the event loop, as
long as the protocol behind it does not pause. The others wait, and reading stops when too many bytes wait. Heads have a
maximum size and are passed on whole. Heads, bodies and the reading of answers have deadlines. A connection beyond the
maximum number may only ask for health.

To the event loop the guard is a protocol, and to the protocol behind it a transport. It uses asyncio's interfaces and
HTTP/1.1 and does not depend on the server. A plain request that arrives in one piece takes the short path through
`data_received`, in less than half a microsecond. Answers bypass the guard.
"""

from __future__ import annotations

import asyncio
import enum
import math
from collections.abc import Callable
from typing import cast

from service.api.connection_table import ConnectionTable
from service.api.framing import HEAD_END, body_length
from service.api.guarded_transport import GuardedTransport
from service.api.request_stream import RequestStream
from service.errors import MalformedRequest, Overloaded, RequestTimeout, ServiceError

MAX_KEPT_BYTES = 1024  # bytes of header fields kept for comparison; 4,096 connections keep 4 MiB
HEALTH_REQUESTS = b"GET /health/", b"HEAD /health/"


class _Due(enum.Enum):
    """The next action that the client owes us, with a deadline."""

    NOTHING = enum.auto()  # the server works on a request, or the connection is idle
    HEAD = enum.auto()
    BODY = enum.auto()
    READING = enum.auto()  # of the rest of the last answer
    LEAVING = enum.auto()  # closing its side after the last answer


class ConnectionGuard(asyncio.Protocol):
    """One connection.

    Args:
        protocol: the protocol of the server, which gets this guard as its transport.
        table: all connections of the event loop.
        refusal: makes the whole response for an error, with `Connection: close`.
    """

    def __init__(
        self, protocol: asyncio.Protocol, table: ConnectionTable, refusal: Callable[[ServiceError], bytes]
    ) -> None:
        self.protocol, self._table, self._refusal = protocol, table, refusal
        self._limits = table.limits
        self._is_settled = False  # all input was passed on as whole requests, and more may be passed on
        self._is_ending = False  # no more bytes pass in either direction
        self._is_unanswered = False  # a request was passed on without all of its body, and no answer was written yet
        self._is_scheduled = False  # `_hand_on_held` will run in the next turn of the event loop
        self._is_fresh = True
        self._is_for_health = False
        self._input = RequestStream(self._limits.url_bytes, self._limits.head_bytes)
        self._n_counted = 0  # bytes of `_input` that the table has counted
        self._max_plain_bytes = self._limits.url_bytes  # longest request that may take the short path
        self._fields = b""  # header fields of the last plain request: most clients repeat them
        self._is_held_up = False  # the protocol has asked to stop reading
        self._is_reading, self._is_writing_paused = True, False
        self._due, self._deadline = _Due.NOTHING, math.inf
        self._unsent: tuple[int, float] | None = None  # unsent bytes, and since when
        self._n_dropped = 0

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection and wait for a request."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one, but does not inherit from it
        self._loop = asyncio.get_running_loop()
        peer = transport.get_extra_info("peername")
        self._is_for_health = not self._table.add(self, str(peer[0]) if isinstance(peer, tuple) else "")
        self._above = GuardedTransport(self, self._transport)
        self.protocol.connection_made(self._above)
        self._settle()

    def data_received(self, data: bytes) -> None:
        """Pass on a plain request at once; inspect all other input first."""
        if self._is_settled and len(data) <= self._max_plain_bytes:
            fields = data[data.find(b"\r\n") :]
            # The first byte: the server would take blank lines for a request and stop measuring idle time.
            if (fields == self._fields or self._are_plain(fields)) and data[0] > 32:
                self.protocol.data_received(data)
                return
        self._receive(data)

    def eof_received(self) -> bool | None:
        """Called by asyncio: the client sends no more."""
        return None if self._is_ending else self.protocol.eof_received()

    def pause_writing(self) -> None:
        """Called by asyncio: the client reads more slowly than we write."""
        self._is_writing_paused = True
        self._settle()
        self._table.watch(self)  # `_settle` does nothing if the connection is ending
        self.protocol.pause_writing()
        if self._table.reads_too_little(self):
            self._loop.call_soon(self._transport.abort)  # not inside a write

    def resume_writing(self) -> None:
        """Called by asyncio: the client has caught up."""
        self._is_writing_paused = False
        self.protocol.resume_writing()
        self._hand_on_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: the connection is closed."""
        self._forget_input()
        self._table.discard(self)
        protocol, self.protocol = self.protocol, asyncio.Protocol()  # leave no reference cycle
        protocol.connection_lost(exc)

    # --- called by the table

    @property
    def n_unsent(self) -> int:
        """Bytes of answers that are written but not sent."""
        return self._transport.get_write_buffer_size()

    def check(self, now: float) -> None:
        """End the connection if the client has missed a deadline."""
        if self._is_stalled(now):
            self._transport.abort()
        elif now >= self._deadline:
            self._expire()

    def make_room(self) -> None:
        """Refuse the connection before its first request."""
        self._refuse(self._too_many())

    # --- called by the transport of the protocol

    def hold_up(self, is_held_up: bool) -> None:
        """The protocol pauses or resumes its input."""
        self._is_held_up = is_held_up
        self._settle()
        self._hand_on_soon()

    def close(self) -> None:
        """Close when all is written. If the client is still sending, let it read the answer first."""
        if self._is_ending:
            return
        if self._input.n_held or self._input.has_body:
            self._leave()
        else:
            self._close()

    # --- input

    def _are_plain(self, fields: bytes) -> bool:
        """Whether `fields`, all bytes after the first line, are exactly the header of a request without a body."""
        try:
            is_plain = 0 <= fields.find(HEAD_END) == len(fields) - len(HEAD_END) and not body_length(fields)
        except MalformedRequest:
            return False
        if is_plain and len(fields) <= MAX_KEPT_BYTES:
            self._fields = fields
        return is_plain

    def _receive(self, data: bytes) -> None:
        if self._is_ending:
            self._n_dropped += len(data)
            if self._n_dropped > self._limits.linger_bytes:
                self._transport.abort()
            return
        self._is_settled = False
        self._input.add(data)
        self._hand_on_held()

    def _hand_on_held(self) -> None:
        """Pass on the rest of a body and one request; then other connections get their turn."""
        self._is_scheduled = False
        try:
            self._hand_on_body()
            if self._input.n_held and not self._is_blocked and self._hand_on_request():
                self._hand_on_body()
                self._hand_on_soon()
        except ServiceError as error:
            self._refuse(error)
        self._settle()

    @property
    def _is_blocked(self) -> bool:
        return self._is_held_up or self._is_writing_paused or self._is_ending

    def _hand_on_body(self) -> None:
        while self._input.n_held and self._input.has_body and not self._is_blocked:
            self.protocol.data_received(self._input.take_body())

    def _hand_on_request(self) -> bool:
        """Pass on the next request; false if its head is not complete yet."""
        request = self._input.take_request()
        if not request:
            return False
        if self._is_for_health:
            request = self._only_for_health(request)
        self._is_fresh, self._due = False, _Due.NOTHING
        if self._input.has_body:
            self._is_unanswered = True
            self._above.call_at_write(self._note_answer)
        self.protocol.data_received(request)
        return True

    def _hand_on_soon(self) -> None:
        """Pass on held input in the next turn of the event loop, if there is any."""
        if self._input.n_held and not self._is_blocked and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._hand_on_held)

    def _only_for_health(self, request: bytes) -> bytes:
        """The request with `Connection: close`; raises for anything but health."""
        if not request.startswith(HEALTH_REQUESTS):
            raise self._too_many()
        return request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)

    def _note_answer(self) -> None:
        self._is_unanswered = False

    # --- state

    def _settle(self) -> None:
        """Update the client's next action with its deadline, and whether we read more."""
        if self._is_ending:
            return
        n_held, has_body = self._input.n_held, self._input.has_body
        if self._is_blocked:
            due = _Due.NOTHING
        elif has_body:
            due = _Due.BODY
        else:
            due = _Due.HEAD if n_held or self._is_fresh else _Due.NOTHING
        self._enter(due)
        self._is_settled = not (n_held or has_body or self._is_fresh or self._is_blocked or self._is_for_health)
        self._read(n_held <= self._limits.head_bytes and not self._is_held_up)
        self._count(n_held)

    def _enter(self, due: _Due) -> None:
        limits = self._limits
        if due is not self._due:
            seconds = {_Due.HEAD: limits.head_s, _Due.BODY: limits.body_s, _Due.LEAVING: limits.linger_s}
            self._due, self._deadline = due, self._loop.time() + seconds.get(due, math.inf)
        if due is not _Due.NOTHING or self._is_writing_paused:
            self._table.watch(self)
        else:
            self._table.unwatch(self)

    def _read(self, is_reading: bool) -> None:
        if is_reading != self._is_reading and not self._transport.is_closing():
            self._is_reading = is_reading
            self._transport.resume_reading() if is_reading else self._transport.pause_reading()

    def _count(self, n_held: int) -> None:
        self._table.n_held_bytes += n_held - self._n_counted
        self._n_counted = n_held
        if n_held and self._table.n_held_bytes > self._limits.all_held_bytes:
            self._transport.abort()

    # --- ending

    def _is_stalled(self, now: float) -> bool:
        """Whether the client has read almost nothing of an answer for too long."""
        n_unsent = self._transport.get_write_buffer_size()
        if not n_unsent:
            self._unsent = None
        elif self._unsent is None or not 0 <= self._unsent[0] - n_unsent < self._limits.sent_bytes:
            self._unsent = n_unsent, now
        return self._unsent is not None and now - self._unsent[1] >= self._limits.send_s

    def _expire(self) -> None:
        if self._due is _Due.LEAVING:
            if not self._transport.get_write_buffer_size():
                self._transport.abort()
        elif self._due is _Due.HEAD and not self._input.n_held:
            self._close()
        elif self._due is _Due.HEAD or self._is_unanswered:
            seconds = self._limits.head_s if self._due is _Due.HEAD else self._limits.body_s
            part = "headers" if self._due is _Due.HEAD else "body"
            self._refuse(RequestTimeout(f"Invalid request: expected its {part} within {seconds:g} s"))
        else:
            self._transport.abort()

    def _too_many(self) -> Overloaded:
        return Overloaded(
            f"{self._limits.max_connections:,} connections are open, or {self._limits.per_address:,} from your address;"
            " keep connections alive and share them"
        )

    def _refuse(self, error: ServiceError) -> None:
        if not self._is_ending and not self._transport.is_closing():
            self._transport.write(self._refusal(error))
            self._leave()

    def _leave(self) -> None:
        """Stop sending and discard input until the client has read the last answer and closes.

        Closing a socket with unread input would reset the connection, and the client would lose the answer.
        """
        self._forget_input()
        if self._table.may_linger(self) and self._transport.can_write_eof():
            self._enter(_Due.LEAVING)
            self._read(True)
            self._transport.write_eof()
        else:
            self._close()

    def _close(self) -> None:
        """Close as soon as all is written."""
        self._forget_input()
        self._enter(_Due.READING)
        self._transport.close()

    def _forget_input(self) -> None:
        self._is_ending, self._is_settled = True, False
        self._above.end()
        self._input.clear()
        self._count(0)
