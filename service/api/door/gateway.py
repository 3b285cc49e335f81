"""`Gateway`: the way of every request. It is plain ASGI, because its cost is added to every request.

It gives each request its id, checks rate, key, site and body, finds the route by the raw path, lets it answer, turns
errors into problem documents, counts requests, and writes the access log.
"""

from __future__ import annotations

import itertools
import re
import secrets
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import NamedTuple

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from service.api import problems
from service.api.door import auth, cors
from service.api.door.auth import Keys
from service.api.door.client_address import ClientAddresses
from service.api.door.connection_guard import current
from service.api.door.credentials import Credentials
from service.api.door.rate_limit import Limits
from service.api.door.route import Call, RouteTable
from service.api.door.site_check import SiteCheck
from service.api.errors import KeyRefused
from service.api.parsers import bodies
from service.api.parsers.bodies import JSON, Message, RequestHeaders
from service.api.parsers.body_turns import BodyTurns
from service.api.problems import Headers
from service.base.errors import ServiceError
from service.engine import fairness
from service.engine.fairness import Client, TracedClient
from service.settings.data_sets import path_of
from service.settings.settings import Settings
from service.telemetry import traces
from service.telemetry.logs import LineBudget
from service.telemetry.metrics import Metrics
from service.telemetry.request_metrics import METHODS
from service.telemetry.span import Value
from service.telemetry.trace_context import Trace

NO_CONTENT = 204
NOT_READY, HEALTH = 503, b"/health/"
CLIENT_GONE = 499  # status for the counters only: the client has closed the connection
PREFLIGHT = "preflight"  # counted as the route of questions of browsers, which the gateway answers
REFUSED, UNKNOWN = "refused", "unknown"  # counted as routes of requests that were refused, or that no route takes
_PROBLEM = problems.MEDIA_TYPE.encode()
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_READ = (
    bodies.HEADERS | bodies.SOURCE_HEADERS | cors.READ_HEADERS | auth.KEY_HEADERS | {b"x-request-id", b"traceparent"}
)
_READ |= {b"host", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"}
_log = structlog.get_logger(__name__)


class Gateway:
    """Answers all requests for one data set.

    Args:
        routes: of the data set.
        settings: of the data set.
        metrics: where requests are counted.
        limits: of the data set, which processes of one service share.

    Attributes:
        keys: the keys of the service.
        tracer: None if traces are off.
        cors: which pages of other origins may read answers.
    """

    def __init__(self, routes: RouteTable, settings: Settings, metrics: Metrics, limits: Limits) -> None:
        self._routes, self._metrics = routes, metrics
        self.tracer, self._data_set = traces.active(), settings.data_set
        self.keys, self._rate = Keys(settings), limits.requests
        self.credentials = Credentials(self.keys, limits.failures)
        self.cors = cors.Cors(settings.cors_origins)
        self._addresses, self._sites = ClientAddresses(settings.trusted_proxies), SiteCheck(self.cors.origins)
        self._refused_lines, self._failed_lines = LineBudget(), LineBudget()
        self._max_body, self._of_data_set = settings.max_body_bytes, path_of(settings.data_set)
        self._logs_all, self._turns = settings.log_level == "debug", BodyTurns()
        self.new_id = map(f"{secrets.token_hex(6)}-{{:x}}".format, itertools.count(1)).__next__

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = time.perf_counter()
        path: bytes = scope["raw_path"].partition(b"?")[0]
        headers = self.headers(scope["headers"])
        trace = None if self.tracer is None else self.tracer.begin(headers.get(b"traceparent"))
        record = RequestRecord(scope["method"], path, self.request_id(headers), started, trace)
        if record.method == "HEAD":  # all code below answers it like GET
            scope, send = {**scope, "method": "GET", "is_head": True}, without_body(send)
        if self.cors.is_on:
            send = self.cors.adding(send, headers.get(b"origin"))
        route, answering = REFUSED, _Answering(send, record)
        try:
            if self.cors.is_on and (allowed := self.cors.preflight(record.method, headers)) is not None:
                self._limited_address(path, scope["client"], scope["headers"])
                headers_of_nothing = [(b"x-request-id", record.request_id.encode()), *allowed]
                await send({"type": "http.response.start", "status": NO_CONTENT, "headers": headers_of_nothing})
                await send({"type": "http.response.body", "body": b""})
                self.count(record, PREFLIGHT, NO_CONTENT)
                return
            self.admit(record.method, path, headers, scope["client"], scope["headers"])
            if trace is not None:
                self.carry(trace)
            route = UNKNOWN
            scope["path"] = record.text  # the raw path: ids are decoded after routing
            found, scope["path_params"] = self._routes.find(scope["method"], scope["path"])
            scope["route"], route = found, found.path
            content = await bodies.whole(receive, record.method, path, headers, self._max_body, self._turns)
            structlog.contextvars.bind_contextvars(request_id=record.request_id)
            answer = await found.answer(Call(scope, receive, headers, content, record.request_id, started))
            if isinstance(answer, bytes):
                answering.status = found.status_code or 200
                if record.method != "HEAD" and (connection := current.get()) is not None:
                    connection.join()
                await _send(send, answering.status, answer, JSON, record.request_id, [])
            else:
                await answer(scope, receive, answering)
        except ClientDisconnect:
            answering.status = CLIENT_GONE
        except Exception as error:
            if answering.status:  # a stream that breaks off: the client must not take a part for the whole
                _log.exception("request failed", method=record.method, path=self._of_data_set + record.text)
            else:
                answering.status, content, media, extra = self.refusal(error, record)
                await _send(send, answering.status, content, media, record.request_id, extra)
        self.count(record, route, answering.status)

    # --- shared by all request paths

    def headers(self, headers: Iterable[tuple[bytes, bytes]]) -> RequestHeaders:
        """The headers that `admit` and `request_id` read; the last one of equal names."""
        selected = {}
        for name, value in headers:  # a comprehension would cost one more call
            if name in _READ:
                selected[name] = value
        return selected

    def request_id(self, headers: RequestHeaders) -> str:
        """The request id of the client if it is valid, else a new one."""
        value = headers.get(b"x-request-id")
        return value.decode() if value is not None and _REQUEST_ID.fullmatch(value) else self.new_id()

    def admit(
        self,
        method: str,
        path: bytes,
        headers: RequestHeaders,
        peer: tuple[str, int] | None,
        every_header: Iterable[tuple[bytes, bytes]],
    ) -> None:
        """Check rate, key, site, and what is announced of the body, before the body is read.

        Sets the client of this context, for which the engine counts its work (`service.engine.fairness`).

        Raises:
            TooManyRequests, NotAuthorized, Forbidden, ForeignSite, BodyTooLarge, UnsupportedMediaType: a check failed.
        """
        address = self._limited_address(path, peer, every_header)
        key = auth.key_in(headers)
        if self.keys.need_none(path):
            self._sites.check(path, headers)
            key = None
        else:
            try:
                self.credentials.check(method, path, key, address)
            except KeyRefused as error:
                if key and b"x-api-key" not in headers:
                    error.came_as_bearer()
                raise
        fairness.current.set(Client(address, key))
        if b"content-length" in headers or b"transfer-encoding" in headers:
            bodies.check_announced(method, path, headers, self._max_body)

    def carry(self, trace: Trace) -> None:
        """Let what works for this request record its part; after `admit`."""
        fairness.current.set(TracedClient.of(fairness.current.get(), trace))

    def _limited_address(
        self, path: bytes, peer: tuple[str, int] | None, every_header: Iterable[tuple[bytes, bytes]]
    ) -> str:
        """The address of the client, which has not sent too many requests; otherwise raises `TooManyRequests`."""
        address = self._addresses.of(peer, every_header)
        if self._rate.is_on:
            self._rate.check(path, address)
        return address

    def refusal(self, error: Exception, record: RequestRecord) -> tuple[int, bytes, bytes, Headers]:
        """Status, body, media type and further headers for an error; logs unforeseen errors."""
        problem = problems.of_error(error, record.request_id)
        if problem is not None:
            status, content, extra = problem
            return status, content, _PROBLEM, extra
        _log.error("request failed", request_id=record.request_id, path=self._of_data_set + record.text, exc_info=error)
        return ServiceError.status, problems.of_crash(record.request_id), _PROBLEM, []

    def raw_refusal(self, error: ServiceError) -> bytes:
        """A whole response for a connection that ends before its request is parsed; counts and logs it."""
        record = RequestRecord("unknown", b"", self.new_id(), time.perf_counter())
        status, content, media, extra = self.refusal(error, record)
        self.count(record, REFUSED, status)
        headers = [*_headers(content, media, record.request_id, extra), *([] if error.closes else [problems.CLOSE])]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, HTTPStatus(status).phrase.encode(), lines, content)

    def count(self, record: RequestRecord, route: str, status: int) -> None:
        """Count and log one answered request."""
        seconds = time.perf_counter() - record.started
        self._metrics.requests.count(record.method, route, status, seconds)
        if record.trace is not None:
            self._trace(record, record.trace, route, status, seconds)
        if status >= 400 or self._logs_all:
            self._log(record, status, seconds)

    def _trace(self, record: RequestRecord, trace: Trace, route: str, status: int, seconds: float) -> None:
        self._metrics.requests.show(record.method, route, status, seconds, trace.hex_id)
        if self.tracer is not None:
            # No path, query, header or body, which may name people; nor a method that a client has invented.
            name = method = METHODS.get(record.method, "_OTHER")
            attributes: dict[str, Value] = {"http.request.method": method, "http.response.status_code": status}
            if route.startswith("/"):
                attributes["http.route"] = route
                name = f"{method} {route}"
            if self._data_set:
                attributes["nearfield.data_set"] = self._data_set
            error = str(status) if status >= 500 else None
            self.tracer.record(name, trace, seconds, attributes, error=error, is_request=True)

    def _log(self, record: RequestRecord, status: int, seconds: float) -> None:
        further: dict[str, int] = {}
        if status < 400 or (
            status == NOT_READY and record.path.startswith(HEALTH)
        ):  # who probes hears it, and asks again
            log = _log.debug
        else:
            log, budget = (_log.info, self._refused_lines) if status < 500 else (_log.warning, self._failed_lines)
            n_left_out = budget.take()
            if n_left_out is None:
                return
            further = {"lines_left_out": n_left_out} if n_left_out else {}
        traced = {} if record.trace is None else {"trace_id": record.trace.hex_id}
        log(
            "request",
            request_id=record.request_id,
            method=record.method,
            path=self._of_data_set + record.text,
            status=status,
            took_ms=round(seconds * 1000, 3),
            **traced,
            **further,
        )


class _Answering:
    """`send` of a response of the framework, with the request's id.

    Attributes:
        status: of the answer; 0 until it has begun.
    """

    def __init__(self, send: Send, record: RequestRecord) -> None:
        self._send, self._record, self.status = send, record, 0

    async def __call__(self, message: Message) -> None:
        """Send one message."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], (b"x-request-id", self._record.request_id.encode())]
        await self._send(message)


class RequestRecord(NamedTuple):
    """The facts of one request that are counted and logged."""

    method: str
    path: bytes
    request_id: str
    started: float
    trace: Trace | None = None  # its span, if it is recorded

    @property
    def text(self) -> str:
        """The raw path, with its percent escapes."""
        return self.path.decode("ascii", "replace")


def without_body(send: Send) -> Send:
    """`send` that passes on the headers of a response, including its length, and drops the body."""

    async def head(message: Message) -> None:
        if message["type"] != "http.response.body":
            await send(message)
        elif not message.get("more_body"):
            await send({"type": "http.response.body", "body": b""})

    return head


async def _send(send: Send, status: int, content: bytes, media: bytes, request_id: str, extra: Headers) -> None:
    headers = _headers(content, media, request_id, extra)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _headers(content: bytes, media: bytes, request_id: str, extra: Headers) -> Headers:
    return [
        (b"content-type", media),
        (b"content-length", str(len(content)).encode()),
        (b"x-request-id", request_id.encode()),
        *extra,
    ]
