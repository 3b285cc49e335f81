"""`RecommendProtocol`: uvicorn's HTTP protocol with a fast path for the most frequent route.

A plain `GET` or `HEAD` on that route needs no task, no scope and no messages: the parsed request goes straight to the
engine's queue, and the answer goes to the socket in one write. This takes a third of the event loop's time on the usual
path. Any other request (another method or route, a body, a pipeline, a slow reader, an invalid parameter) takes the
usual path through the gateway and the framework, which gives the same answer.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from service.api.bodies import JSON
from service.api.gateway import CLIENT_GONE, Gateway, RequestRecord
from service.api.http_protocol import HttpProtocol
from service.api.problems import CLOSE, Headers

READS = frozenset({b"GET", b"HEAD"})
SLOW_PATH_HEADERS = frozenset({b"content-length", b"transfer-encoding", b"expect", b"upgrade"})


class FastGet(NamedTuple):
    """The route with the fast path.

    Attributes:
        prefix: its paths up to the last `/`.
        route: the framework's name of the route, for the counters.
        query: makes the query from (tail of the path, query string); None if they are unusual or invalid.
        ask: returns a future of the engine's answer; may raise a `ServiceError`, and so may the future.
        finish: makes the body from (answer, request id, `time.perf_counter()` at arrival).
    """

    prefix: bytes
    route: str
    query: Callable[[bytes, bytes], Any]
    ask: Callable[[Any], asyncio.Future[Any]]
    finish: Callable[[Any, str, float], bytes]


class RecommendProtocol(HttpProtocol):
    """One connection of a process that has the engine."""

    def __init__(self, gateway: Gateway, short: FastGet, **options: Any) -> None:
        super().__init__(gateway.raw_refusal, **options)
        self._gateway, self._short = gateway, short
        self._default_headers: list[tuple[bytes, bytes]] | None = None
        self._default_head = b""

    def on_headers_complete(self) -> None:
        """Called by the parser after the headers of a request."""
        if not (self.url.startswith(self._short.prefix) and self._is_plain() and self._begin()):
            super().on_headers_complete()

    def _is_plain(self) -> bool:
        parser, cycle = self.parser, self.cycle
        return (
            parser.get_method() in READS
            and (cycle is None or cycle.response_complete)
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not self.flow.write_paused
            and SLOW_PATH_HEADERS.isdisjoint(name for name, _ in self.headers)
        )

    def _begin(self) -> bool:
        """Start the fast path; false if the request is unusual."""
        started = time.perf_counter()
        path, _, text = self.url.partition(b"?")
        query = self._short.query(path[len(self._short.prefix) :], text)
        if query is None:
            return False
        gateway = self._gateway
        headers = gateway.headers(self.headers)
        record = RequestRecord(self.parser.get_method().decode(), path, gateway.request_id(headers), started)
        cycle = _Cycle()
        self.cycle = cast("RequestResponseCycle", cycle)  # it has all that uvicorn uses of a cycle
        try:
            gateway.admit(record.method, path, headers, self.client, self.headers)
            answer = self._short.ask(query)
        except Exception as error:
            self._refuse(record, cycle, error)
        else:
            answer.add_done_callback(functools.partial(self._finish, record, cycle))
        return True

    def _finish(self, record: RequestRecord, cycle: _Cycle, answer: asyncio.Future[Any]) -> None:
        try:
            content = self._short.finish(answer.result(), record.request_id, record.started)
        except Exception as error:
            self._refuse(record, cycle, error)
        else:
            self._write(record, cycle, 200, content, JSON, [])

    def _refuse(self, record: RequestRecord, cycle: _Cycle, error: Exception) -> None:
        self._write(record, cycle, *self._gateway.refusal(error, record))

    def _write(
        self, record: RequestRecord, cycle: _Cycle, status: int, content: bytes, media: bytes, extra: Headers
    ) -> None:
        """Write the whole response at once, and let uvicorn read the next request."""
        cycle.response_complete = True
        if cycle.disconnected or self.transport.is_closing():
            self._gateway.count(record, self._short.route, CLIENT_GONE)
            return
        if CLOSE in extra:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            extra = [*extra, CLOSE]
        further = b"".join(b"%b: %b\r\n" % header for header in extra) if extra else b""
        request_id = record.request_id.encode()
        body = b"" if record.method == "HEAD" else content
        self.transport.write(
            b"%b%bcontent-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n%b\r\n%b"
            % (STATUS_LINE[status], self._head(), media, len(content), request_id, further, body)
        )
        self._gateway.count(record, self._short.route, status)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _head(self) -> bytes:
        """The headers that uvicorn adds to every response and renews each second."""
        headers = self.server_state.default_headers
        if headers is not self._default_headers:
            self._default_headers = headers
            self._default_head = b"".join(b"%b: %b\r\n" % header for header in headers)
        return self._default_head


class _Cycle:
    """The attributes of a `RequestResponseCycle` that uvicorn reads and sets."""

    __slots__ = ("disconnected", "keep_alive", "more_body", "response_complete")

    def __init__(self) -> None:
        self.response_complete = self.disconnected = False
        self.keep_alive = self.more_body = True

    @property
    def message_event(self) -> _Cycle:
        """An event that no task waits for."""
        return self

    def set(self) -> None:
        """See `message_event`."""
