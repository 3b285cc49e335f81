"""`ConnectionGuard`: sits between a socket and the HTTP parser and limits the share of each client.

It divides the incoming bytes into requests (`RequestStream`) and passes on one request per turn of the event loop, as
long as the protocol behind it does not pause. The others wait, and reading stops when too many bytes wait. Heads have a
maximum size and are passed on whole. Heads, bodies, the reading of answers and idle connections have deadlines. A
connection beyond the maximum number may only ask for health. `PlainLists` answers plain requests for lists without the
protocol.

To the event loop the guard is a protocol, and to the protocol behind it a transport. It uses asyncio's interfaces and
HTTP/1.1 and does not depend on the server. A plain request that arrives in one piece takes the short path through
`data_received`, in less than half a microsecond. Answers bypass the guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, cast

from service.api.door.connection_table import ConnectionTable
from service.api.door.deadline import Deadline, Due
from service.api.door.framing import PlainRequests
from service.api.door.request_stream import RequestStream
from service.api.errors import RequestTimeout
from service.base.errors import ServiceError

current: ContextVar[GuardedTransport | None] = ContextVar("connection", default=None)  # of the request being answered


class ConnectionGuard(asyncio.Protocol):
    """One connection.

    Attributes:
        peer: address and port of the other side; None if it has none.
        must_close: whether the connection closes after the present, or the next, answer.

    Args:
        protocol: the protocol of the server, which gets this guard as its transport.
        table: all connections of the event loop.
        refusal: makes the whole response for an error, with `Connection: close`.
        begin: see `PlainLists.begin`; None: the protocol answers all requests.
    """

    def __init__(
        self,
        protocol: asyncio.Protocol,
        table: ConnectionTable,
        refusal: Callable[[ServiceError], bytes],
        begin: Callable[[ConnectionGuard, bytes], bool] | None = None,
    ) -> None:
        self.protocol, self._table, self._refusal, self._begin = protocol, table, refusal, begin
        self.peer: tuple[str, int] | None = None
        self.must_close = False
        self._limits = table.limits
        self._is_settled = False  # all input was passed on as whole requests, and more may be passed on
        self._is_ending = False  # no more bytes pass in either direction
        self._is_unanswered = False  # a request was passed on without all of its body, and no answer was written yet
        self._n_passed_on = 0  # requests that the protocol has not answered
        self._has_read = False  # `PlainLists` has not answered yet
        self._is_scheduled = False  # `_hand_on_held` will run in the next turn of the event loop
        self._is_fresh = True
        self._is_for_health = False
        self._input = RequestStream(self._limits.url_bytes, self._limits.head_bytes)
        self._n_counted = 0  # bytes of `_input` that the table has counted
        self._plain = PlainRequests(self._limits.url_bytes)
        self._is_held_up = False  # the protocol has asked to stop reading
        self._is_reading, self._is_writing_paused = True, False
        self._deadline = Deadline(table.limits)
        self._n_dropped = 0

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection and wait for a request."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one, but does not inherit from it
        self._loop = asyncio.get_running_loop()
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.peer = str(peer[0]), int(peer[1])
        self._is_for_health = not self._table.add(self, self.peer[0] if self.peer else "")
        self._above = GuardedTransport(self, self._transport)
        self.protocol.connection_made(self._above)
        self._settle()

    def data_received(self, data: bytes) -> None:
        """Pass on a plain request at once; inspect all other input first."""
        if self._is_settled and self._plain.includes(data):
            self._pass_on(data)
        else:
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
        self._deadline.note_read()
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
        deadline = self._deadline
        if deadline.due is Due.REQUEST and (self._has_read or self._n_passed_on):
            return  # it is not idle
        if deadline.is_stalled(self.n_unsent, now):
            self._transport.abort()
        elif deadline.is_over(now):
            self._expire(deadline.due)

    def make_room(self) -> None:
        """Refuse the connection before its first request."""
        self._refuse(self._table.too_many())

    # --- called by the transport of the protocol

    def hold_up(self, is_held_up: bool) -> None:
        """The protocol pauses or resumes its input."""
        self._is_held_up = is_held_up
        self._settle()
        self._hand_on_soon()

    def close(self) -> None:
        """Close when all is written. If the client is still sending, let it read the answer first."""
        self.must_close = True
        if self._is_ending or self._has_read:
            return
        if self._input.n_held or self._input.has_body:
            self._leave()
        else:
            self._close()

    # --- called by `PlainLists`

    def begin_read(self) -> None:
        """Pass on no further request until the answer to this one is written."""
        self._has_read, self._is_settled = True, False

    def end_read(self, response: bytes, *, closes: bool) -> bool:
        """Write a whole response, and close if it `closes`; false if the client has gone."""
        self._has_read = False
        if self._is_ending or self._transport.is_closing():
            return False
        self._transport.write(response)
        if closes:
            self.close()
        elif self._deadline.due is Due.REQUEST and not self._input.n_held and not self._is_blocked:
            self._is_settled = True
            self._deadline.renew(self._loop.time())
        else:
            self._settle()
            self._hand_on_soon()
        return True

    # --- called by the application

    def note_answer(self) -> None:
        """The application has answered a request that was passed on to the protocol."""
        self._n_passed_on -= 1
        self._deadline.renew(self._loop.time()) if self._deadline.due is Due.REQUEST else self._settle()

    # --- input

    def _pass_on(self, request: bytes) -> None:
        """Let `PlainLists` answer a request, or the protocol, which gets all that is not plain."""
        # Answers have the order of the requests, so that a read cannot overtake one that the protocol works on.
        if self._begin is not None and not self._n_passed_on and self._begin(self, request):
            return
        self._n_passed_on += 1
        current.set(self._above)
        self.protocol.data_received(request)

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
        return self._has_read or self._is_held_up or self._is_writing_paused or self._is_ending

    def _hand_on_body(self) -> None:
        while self._input.n_held and self._input.has_body and not self._is_blocked:
            self.protocol.data_received(self._input.take_body())

    def _hand_on_request(self) -> bool:
        """Pass on the next request; false if its head is not complete yet."""
        request = self._input.take_request()
        if not request:
            return False
        if self._is_for_health:
            request = self._table.only_for_health(request)
        self._is_fresh = False
        self._enter(Due.NOTHING)
        if self._input.has_body:
            self._is_unanswered = True
            self._above.call_at_write(self._note_write)
        self._pass_on(request)
        return True

    def _hand_on_soon(self) -> None:
        """Pass on held input in the next turn of the event loop, if there is any."""
        if self._input.n_held and not self._is_blocked and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._hand_on_held)

    def _note_write(self) -> None:
        self._is_unanswered = False

    # --- state

    def _settle(self) -> None:
        """Update the client's next action with its deadline, and whether we read more."""
        if self._is_ending:
            return
        n_held, has_body = self._input.n_held, self._input.has_body
        if self._is_blocked:
            due = Due.NOTHING
        elif has_body:
            due = Due.BODY
        elif n_held or self._is_fresh:
            due = Due.HEAD
        else:
            due = Due.NOTHING if self._n_passed_on else Due.REQUEST
        self._enter(due)
        self._is_settled = not (n_held or has_body or self._is_fresh or self._is_blocked or self._is_for_health)
        self._read(n_held <= self._limits.head_bytes and not self._is_held_up)
        self._count(n_held)

    def _enter(self, due: Due) -> None:
        self._deadline.enter(due, self._loop.time())
        if due is not Due.NOTHING or self._is_writing_paused:
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

    def _expire(self, due: Due) -> None:
        if due is Due.LEAVING:
            if not self.n_unsent:
                self._transport.abort()
        elif due in (Due.REQUEST, Due.HEAD) and not self._input.n_held:
            self._close()
        elif due is Due.HEAD or self._is_unanswered:
            seconds = self._limits.head_s if due is Due.HEAD else self._limits.body_s
            part = "headers" if due is Due.HEAD else "body"
            self._refuse(RequestTimeout(f"Invalid request: expected its {part} within {seconds:g} s"))
        else:
            self._transport.abort()

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
            self._enter(Due.LEAVING)
            self._read(True)
            self._transport.write_eof()
        else:
            self._close()

    def _close(self) -> None:
        """Close as soon as all is written."""
        self._forget_input()
        self._enter(Due.READING)
        self._transport.close()

    def _forget_input(self) -> None:
        self._is_ending, self._is_settled = True, False
        self._above.end()
        self._input.clear()
        self._count(0)


class GuardedTransport(asyncio.Transport):
    """The transport that the protocol behind a guard gets.

    Answers go straight to the transport below: `write` is the method of that transport, at no extra cost.
    """

    def __init__(self, guard: ConnectionGuard, transport: asyncio.Transport) -> None:
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

    def join(self) -> None:
        """Let the next two writes be one, the head and the body of an answer: each costs a call of the kernel."""
        below = self.write

        def first(data: bytes | bytearray | memoryview) -> None:
            head = data

            def second(data: bytes | bytearray | memoryview) -> None:
                self.write = below  # type: ignore[method-assign]
                self.write(b"".join((head, data)))

            self.write = second  # type: ignore[method-assign]

        self.write = first  # type: ignore[method-assign]

    def note_answer(self) -> None:
        """The application has answered a request that was passed on to the protocol."""
        self._guard.note_answer()

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
