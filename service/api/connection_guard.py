"""`ConnectionGuard`: what stands between a socket and the HTTP parser, so that no client can take more than its share.

It divides the bytes that arrive into requests (`RequestStream`) and hands on one of them in a turn of the event loop,
as long as the protocol behind it does not pause. The others wait, and reading stops when they are too many. Heads are
handed on whole and have a longest size; heads, bodies and the reading of answers have deadlines. A connection too many
may ask for health only.

To the event loop it is a protocol, to the protocol behind it a transport: it knows asyncio's interfaces, HTTP/1.1 and
nothing of the server. A plain request that arrives in one piece takes the short path through `data_received`, less than
half a microsecond; answers do not pass through here.
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

MAX_KEPT_BYTES = 1024  # of the fields of the request before; 4,096 connections keep 4 MiB
HEALTH_REQUESTS = b"GET /health/", b"HEAD /health/"


class _Due(enum.Enum):
    """What the client has to do next, before a deadline."""

    NOTHING = enum.auto()  # the server is at work, or the connection idle
    HEAD = enum.auto()
    BODY = enum.auto()
    READING = enum.auto()  # the rest of the last answer
    LEAVING = enum.auto()


class ConnectionGuard(asyncio.Protocol):
    """One connection.

    Args:
        protocol: the server's protocol behind it, which sees a transport.
        refusal: a whole response for an error, `Connection: close` in it.
    """

    def __init__(
        self, protocol: asyncio.Protocol, table: ConnectionTable, refusal: Callable[[ServiceError], bytes]
    ) -> None:
        self.protocol, self._table, self._refusal = protocol, table, refusal
        self._limits = table.limits
        self._is_settled = False  # all that arrived was handed on, as whole requests, and more may be
        self._is_ending = False  # nothing is handed on any more, in neither direction
        self._is_unanswered = False  # a request was handed on without the end of its body, and nothing written since
        self._is_scheduled = False  # handing on, in the next turn of the event loop
        self._is_fresh = True
        self._is_for_health = False
        self._input = RequestStream(self._limits.url_bytes, self._limits.head_bytes)
        self._n_counted = 0  # bytes of it, as the table knows them
        self._max_plain_bytes = self._limits.url_bytes  # of a request that needs no closer look
        self._fields = b""  # of the plain request before: most clients send the same again
        self._is_held_up = False  # the protocol has asked to stop reading
        self._is_reading, self._is_writing_paused = True, False
        self._due, self._deadline = _Due.NOTHING, math.inf
        self._unsent: tuple[int, float] | None = None  # bytes, and when they were that many
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
        """Hand on a plain request at once; everything else is looked at first."""
        if self._is_settled and len(data) <= self._max_plain_bytes:
            fields = data[data.find(b"\r\n") :]
            # The first byte: the server would take blank lines alone for a request and stop counting idle time.
            if (fields == self._fields or self._are_plain(fields)) and data[0] > 32:
                self.protocol.data_received(data)
                return
        self._receive(data)

    def eof_received(self) -> bool | None:
        """The client sends no more."""
        return None if self._is_ending else self.protocol.eof_received()

    def pause_writing(self) -> None:
        """The client reads more slowly than it is answered."""
        self._is_writing_paused = True
        self._settle()
        self._table.watch(self)  # also where nothing more is settled
        self.protocol.pause_writing()
        if self._table.reads_too_little(self):
            self._loop.call_soon(self._transport.abort)  # not in the midst of a write

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_writing_paused = False
        self.protocol.resume_writing()
        self._hand_on_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._forget_input()
        self._table.discard(self)
        protocol, self.protocol = self.protocol, asyncio.Protocol()  # no circle of references is left
        protocol.connection_lost(exc)

    # --- called by the table

    @property
    def n_unsent(self) -> int:
        """Bytes of answers that are written and not sent."""
        return self._transport.get_write_buffer_size()

    def check(self, now: float) -> None:
        """End the connection if the client has let a deadline pass."""
        if self._is_stalled(now):
            self._transport.abort()
        elif now >= self._deadline:
            self._expire()

    def make_room(self) -> None:
        """Refuse before anything was asked."""
        self._refuse(self._too_many())

    # --- called by the transport of the protocol

    def hold_up(self, is_held_up: bool) -> None:
        """The protocol wants nothing more for now, or again something."""
        self._is_held_up = is_held_up
        self._settle()
        self._hand_on_soon()

    def close(self) -> None:
        """Close when everything is written; where the client is still sending, let it read the answer first."""
        if self._is_ending:
            return
        if self._input.n_held or self._input.has_body:
            self._leave()
        else:
            self._close()

    # --- what comes in

    def _are_plain(self, fields: bytes) -> bool:
        """Whether these are all header fields of a request without a body, from the end of its first line on."""
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
        """Hand on the rest of a body and one request; then it is the turn of other connections."""
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
        """False if the next request has not come as far as the end of its head."""
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
        """In the next turn of the event loop, if there is anything."""
        if self._input.n_held and not self._is_blocked and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._hand_on_held)

    def _only_for_health(self, request: bytes) -> bytes:
        """The request, after whose answer the server closes."""
        if not request.startswith(HEALTH_REQUESTS):
            raise self._too_many()
        return request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)

    def _note_answer(self) -> None:
        self._is_unanswered = False

    # --- whose turn it is

    def _settle(self) -> None:
        """What the client has to do next, and whether more is read from it."""
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

    # --- how it ends

    def _is_stalled(self, now: float) -> bool:
        """Whether the client has taken next to nothing of an answer for too long."""
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
        """Send no more, and throw away what comes, until the client has read the last answer and closes.

        A socket that is closed with input unread would tell the client of a lost connection instead of the answer.
        """
        self._forget_input()
        if self._table.may_linger(self) and self._transport.can_write_eof():
            self._enter(_Due.LEAVING)
            self._read(True)
            self._transport.write_eof()
        else:
            self._close()

    def _close(self) -> None:
        """Close as soon as everything is written."""
        self._forget_input()
        self._enter(_Due.READING)
        self._transport.close()

    def _forget_input(self) -> None:
        self._is_ending, self._is_settled = True, False
        self._above.end()
        self._input.clear()
        self._count(0)
