"""`FastReads`: answers plain requests of the most frequent route right behind the `ConnectionGuard`.

A plain `GET` or `HEAD` on that route needs no parser of the server, no task, no scope and no messages: it goes straight
to the engine's queue, and the answer goes to the socket in one write. Any other request (another route, a body,
HTTP/1.0, an invalid parameter, a character that HTTP parsers may read differently) takes the usual path through the
framework, which gives the same answer. This module depends on HTTP/1.1 (RFC 9112), not on the server.
"""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from service.api.door.framing import HEAD_END, MAX_KEPT_BYTES
from service.api.door.gateway import CLIENT_GONE, Gateway, RequestRecord
from service.api.parsers.bodies import JSON
from service.api.problems import CLOSE, Headers

MAX_KEPT = 1024  # headers that are kept, at most 1 MiB of text: clients repeat theirs in every request
SLOW_PATH_FIELDS = frozenset((b"content-length", b"transfer-encoding", b"expect", b"upgrade"))
_URL = re.compile(rb"[\w.~!$&'()*+,;=:@%/?-]+", re.ASCII)  # RFC 3986; parsers disagree on all other characters
_OF_DATA_SET = re.compile(rb"(?:GET|HEAD) /d/([a-z0-9-]+)/")
_FIELD = re.compile(rb"([\w!#$%&'*+.^`|~-]+):[ \t]*([!-~](?:[ -~\t]*[!-~])?)?", re.ASCII)


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


class Connection(Protocol):
    """The guard of a connection as `FastReads` sees it; the methods that it calls may be called in any order.

    Attributes:
        peer: address and port of the other side; None if it has none.
        must_close: whether the connection closes after the present answer.
    """

    peer: tuple[str, int] | None
    must_close: bool

    def begin_read(self) -> None:
        """Pass on no further request until the answer to this one is written."""

    def end_read(self, response: bytes, *, closes: bool) -> bool:
        """Write a whole response, and close if it `closes`; false if the client has gone."""


class PlainReads(Protocol):
    """What answers plain reads for a `ConnectionGuard`."""

    def begin(self, connection: Connection, request: bytes) -> bool:
        """See `FastReads.begin`."""


class _Header(NamedTuple):
    """The header of a plain request.

    Attributes:
        fields: (lowercase name, value) in their order.
        closes: whether the client asks to close the connection.
    """

    fields: Headers
    closes: bool


class FastReads:
    """Answers plain requests of one route.

    Args:
        gateway: gives each request its id, checks key, rate and site, counts and logs, as for all other requests.
        get: the route.
        data_set: the beginning of all paths of the data set, which is no part of the route.
    """

    def __init__(self, gateway: Gateway, get: FastGet, data_set: bytes = b"") -> None:
        self._gateway, self._get, self._n_left_out = gateway, get, len(data_set)
        self._beginnings = b"GET " + data_set + get.prefix, b"HEAD " + data_set + get.prefix
        self._is_cors, self._always = gateway.cors.is_on, gateway.cors.always
        self._date_s, self._date = 0, b""

    def begin(self, connection: Connection, request: bytes) -> bool:
        """Start to answer a request; false, before anything is done for it, if it must take the usual path.

        Args:
            connection: of the client; no other request on it is being answered.
            request: one whole request.
        """
        if not request.startswith(self._beginnings):
            return False
        started = time.perf_counter()
        end = request.find(b"\r\n")
        method, _, rest = request[:end].partition(b" ")
        url, _, version = rest.partition(b" ")
        header = _header(request[end:])
        if header is None or version != b"HTTP/1.1" or _URL.fullmatch(url) is None:
            return False
        if self._is_cors and any(name == b"origin" for name, _ in header.fields):
            return False
        path, _, text = url[self._n_left_out :].partition(b"?")
        query = self._get.query(path[len(self._get.prefix) :], text)
        if query is None:
            return False
        connection.begin_read()
        self._answer(connection, method.decode(), path, header, query, started)
        return True

    def _answer(
        self, connection: Connection, method: str, path: bytes, header: _Header, query: Any, started: float
    ) -> None:
        gateway = self._gateway
        headers = gateway.headers(header.fields)
        trace = None if gateway.tracer is None else gateway.tracer.begin(headers.get(b"traceparent"))
        record = RequestRecord(method, path, gateway.request_id(headers), started, trace)
        try:
            gateway.admit(method, path, headers, connection.peer, header.fields)
            if trace is not None:
                gateway.carry(trace)
            answer = self._get.ask(query)
        except Exception as error:
            self._refuse(connection, record, header, error)
        else:
            answer.add_done_callback(functools.partial(self._finish, connection, record, header))

    def _finish(
        self, connection: Connection, record: RequestRecord, header: _Header, answer: asyncio.Future[Any]
    ) -> None:
        try:
            content = self._get.finish(answer.result(), record.request_id, record.started)
        except Exception as error:
            self._refuse(connection, record, header, error)
        else:
            self._write(connection, record, header, 200, content, JSON, self._always)

    def _refuse(self, connection: Connection, record: RequestRecord, header: _Header, error: Exception) -> None:
        status, content, media, extra = self._gateway.refusal(error, record)
        self._write(connection, record, header, status, content, media, [*extra, *self._always])

    def _write(
        self,
        connection: Connection,
        record: RequestRecord,
        header: _Header,
        status: int,
        content: bytes,
        media: bytes,
        extra: Headers,
    ) -> None:
        """Write the whole response at once."""
        closes = CLOSE in extra
        if not closes and (header.closes or connection.must_close):
            extra, closes = [*extra, CLOSE], True
        further = b"".join(b"%b: %b\r\n" % field for field in extra) if extra else b""
        response = b"%b%bcontent-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n%b\r\n%b" % (
            _status_line(status), self._date_line(), media, len(content), record.request_id.encode(), further,
            b"" if record.method == "HEAD" else content,
        )  # fmt: skip
        is_written = connection.end_read(response, closes=closes)
        self._gateway.count(record, self._get.route, status if is_written else CLIENT_GONE)

    def _date_line(self) -> bytes:
        """The field `date`, which changes every second."""
        now = int(time.time())
        if now != self._date_s:
            self._date_s, self._date = now, b"date: %b\r\n" % formatdate(now, usegmt=True).encode()
        return self._date


class ReadsByDataSet:
    """Finds the data set of a plain read by its path.

    Args:
        default: of the data set whose paths do not name it.
        further: of the others, by name.
    """

    def __init__(self, default: FastReads, further: Mapping[bytes, PlainReads]) -> None:
        self._default, self._further = default, further

    def begin(self, connection: Connection, request: bytes) -> bool:
        """See `FastReads.begin`."""
        found = _OF_DATA_SET.match(request)
        reads = self._default if found is None else self._further.get(found[1])
        return reads is not None and reads.begin(connection, request)


def _header(text: bytes) -> _Header | None:
    """The header in `text`, which begins with the end of the request line; None if it is unusual."""
    return _kept_header(text) if len(text) <= MAX_KEPT_BYTES else _parsed(text)


def _parsed(text: bytes) -> _Header | None:
    if not text.endswith(HEAD_END):
        return None
    fields: Headers = []
    closes = False
    for line in text[2:-4].split(b"\r\n") if len(text) > len(HEAD_END) else ():
        field = _FIELD.fullmatch(line)
        if field is None:
            return None
        name, value = field[1].lower(), field[2] or b""
        if name in SLOW_PATH_FIELDS or (name == b"connection" and value.lower() not in (b"keep-alive", b"close")):
            return None
        closes = closes or (name == b"connection" and value.lower() == b"close")
        fields.append((name, value))
    return _Header(fields, closes)


_kept_header = functools.lru_cache(MAX_KEPT)(_parsed)


@functools.cache
def _status_line(status: int) -> bytes:
    return b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode())
