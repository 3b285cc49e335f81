"""`PlainLists`: answers plain requests for lists right behind the `ConnectionGuard`, those of one turn together.

A plain `GET` of a list needs no parser of the server, no task and no message of its own. The requests of one turn of
the event loop that ask alike become one query of the engine, for several users, also of several clients. Each answer
goes to its socket in one write. A read then takes half of the processor time.

The engine has at most `AT_ONCE` queries of a client. What arrives meanwhile waits here and goes together. So the busier
the engine is, the more reads share a query, and what is too much is refused here without any work of the engine.

Any other request (another route, a body, HTTP/1.0, a parameter beside `n`, `offset` and `model`, an escape in the id, a
character that HTTP parsers may read differently) takes the usual way, by `Route`, which gives the same answer. So do
all requests while traces or `cors_origins` are on.
"""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple, cast

from msgspec import structs

from service.api.door.connection_guard import ConnectionGuard
from service.api.door.gateway import CLIENT_GONE, Gateway, RequestRecord
from service.api.parsers.bodies import JSON, RequestHeaders
from service.api.problems import CLOSE, Headers
from service.api.serving import Serving
from service.base.errors import Overloaded, ServiceError
from service.engine import fairness
from service.engine.fairness import MAX_COST, Client, Portion, cost_of_list
from service.engine.queries import Recommend
from service.engine.queries.columns import Ids
from service.engine.queries.encoding import finished

ROUTE = "/recommend/{user}"  # whose requests these are
MOST = 64  # users of one query; the engine's time for each of them falls no more beyond
AT_ONCE = 4  # queries of one client; with 2 the engine rested for a fifth of the time at 48,000 reads/s, on an H100
MAX_KEPT, MAX_KEPT_BYTES = 1024, 1024  # headers, and bytes of each, that are read once: clients repeat theirs
_REQUEST = re.compile(
    rb"GET (/recommend/([\w.~!$&'()*+,;=:@-]{1,256}))(?:\?([\w.~!$&'()*+,;=:@%/?-]*))? HTTP/1\.1(?=\r\n)", re.ASCII
)
_FIELD = re.compile(rb"([\w!#$%&'*+.^`|~-]+):[ \t]*([!-~](?:[ -~\t]*[!-~])?)?", re.ASCII)
_RESPONSE = b"%b%b\r\ncontent-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n%b\r\n%b"
_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_OF_THE_USUAL_WAY = frozenset((b"content-length", b"transfer-encoding", b"expect", b"upgrade"))

Page = Callable[[bytes], Recommend | None]  # what a query string asks for, without the user; None if it is not plain


class _Header(NamedTuple):
    """The header of a plain request.

    Attributes:
        fields: (lowercase name, value) in their order.
        known: the fields that the gateway reads.
        closes: whether the client asks to close the connection.
    """

    fields: Headers
    known: RequestHeaders
    closes: bool


class _Read(NamedTuple):
    """One request that waits for its list."""

    connection: ConnectionGuard
    header: _Header
    record: RequestRecord


class _Batch:
    """Requests of one client for the same page of several users, in order.

    Attributes:
        line: of the client.
        most: requests that one query of the engine may answer.
    """

    def __init__(self, line: _Line, page: Recommend) -> None:
        self.line, self.page, self.most = line, page, max(1, min(MOST, MAX_COST // cost_of_list(page)))
        self.users: list[bytes] = []
        self.reads: list[_Read] = []


class _Line:
    """What one client waits for.

    Attributes:
        n_reads: requests without an answer.
        n_asked: batches that the engine has.
        waiting: the others, the oldest first.
        last: the newest one of `waiting` for each page, by the page's `id`, if it has room.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.n_reads = self.n_asked = 0
        self.waiting: deque[_Batch] = deque()
        self.last: dict[int, _Batch] = {}

    def add(self, page: Recommend, user: bytes, read: _Read) -> None:
        """Add a request."""
        batch = self.last.get(id(page))
        if batch is None:
            batch = self.last[id(page)] = _Batch(self, page)
            self.waiting.append(batch)
        batch.users.append(user)
        batch.reads.append(read)
        self.n_reads += 1
        if len(batch.reads) == batch.most:
            del self.last[id(page)]

    def take(self) -> _Batch:
        """The oldest batch, which takes no further requests."""
        batch = self.waiting.popleft()
        if self.last.get(id(batch.page)) is batch:
            del self.last[id(batch.page)]
        return batch


class PlainLists:
    """Answers plain requests for lists of one data set.

    Args:
        gateway: gives each request its id, checks key, rate and site, counts and logs, as for all other requests.
        page: see its type.
        serving: answers the queries.
    """

    def __init__(self, gateway: Gateway, page: Page, serving: Serving) -> None:
        self._gateway, self._page, self._serving = gateway, page, serving
        self._lines: dict[Client, _Line] = {}  # of clients who wait
        self._new: list[_Line] = []  # lines to which this turn has added
        self._header = functools.lru_cache(MAX_KEPT)(self._parsed)
        self._date_s, self._date = 0, b""

    def begin(self, connection: ConnectionGuard, request: bytes) -> bool:
        """Begin to answer a request; false, before anything is done for it, if it must take the usual way.

        Args:
            connection: of the client; no other request on it is being answered.
            request: one whole request.
        """
        asked = _REQUEST.match(request)
        if asked is None:
            return False
        gateway, started = self._gateway, time.perf_counter()
        text = request[asked.end() :]
        header = self._header(text) if len(text) <= MAX_KEPT_BYTES else self._parsed(text)
        page = self._page(asked[3] or b"")
        if page is None or header is None:
            return False
        connection.begin_read()
        record = RequestRecord("GET", asked[1], gateway.request_id(header.known), started)
        read = _Read(connection, header, record)
        try:
            gateway.admit("GET", asked[1], header.known, connection.peer, header.fields)
        except Exception as error:
            self._refuse(read, error)
            return True
        client = fairness.current.get()
        line = self._lines.get(client) or self._lines.setdefault(client, _Line(client))
        if line.n_reads >= self._serving.settings.max_waiting:
            self._refuse(read, Overloaded(f"{line.n_reads:,} requests are already waiting"))
            return True
        if not self._new:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._new.append(line)
        line.add(page, asked[2], read)
        return True

    def _end_turn(self) -> None:
        lines, self._new = self._new, []
        self._ask(dict.fromkeys(lines))

    def _ask(self, lines: Iterable[_Line]) -> None:
        """Ask for what waits in lines, unless the engine has enough of it; batches for the same page go together."""
        alike: dict[int, list[_Batch]] = {}
        for line in lines:
            while line.waiting and line.n_asked < AT_ONCE:
                batch = line.take()
                together = alike.setdefault(id(batch.page), [])
                if together and sum(len(one.reads) for one in together) + len(batch.reads) > batch.most:
                    self._ask_for(together)
                    together = alike[id(batch.page)] = []
                together.append(batch)
                line.n_asked += 1
        for together in alike.values():
            self._ask_for(together)

    def _ask_for(self, batches: Sequence[_Batch]) -> None:
        """Ask for batches of the same page; refuse those that have waited too long."""
        limit_s, now = self._serving.settings.max_wait_ms / 1000, time.perf_counter()
        late = [batch for batch in batches if now - batch.reads[0].record.started > limit_s]
        self._fail(late, Overloaded(f"the request waited for more than {limit_s:g} s"))
        in_time = [batch for batch in batches if batch not in late]
        if not in_time:
            return
        users = Ids.of([user for batch in in_time for user in batch.users])
        portions = [Portion(batch.line.client, len(batch.users)) for batch in in_time]
        try:
            answers = self._serving.answer_lists(structs.replace(in_time[0].page, users=users), portions)
        except Exception as error:
            self._fail(in_time, error)
        else:
            answers.add_done_callback(functools.partial(self._finish, in_time))

    def _finish(self, batches: Sequence[_Batch], answers: asyncio.Future[list[bytes]]) -> None:
        error = cast("Exception | None", answers.exception())
        if error is None:
            self._end(batches)
        elif len(batches) > 1:  # what is wrong with the requests of one client is no matter of the others
            for batch in batches:
                self._ask_for([batch])
        elif isinstance(error, ServiceError) or len(batches[0].reads) == 1:
            self._fail(batches, error)
        else:  # and the list of one user must not keep the others from theirs
            (batch,) = batches
            batch.line.n_asked += len(batch.reads) - 1
            for user, read in zip(batch.users, batch.reads, strict=True):
                alone = _Batch(batch.line, batch.page)
                alone.users, alone.reads = [user], [read]
                self._ask_for([alone])
        # Before the answers are written, so that the engine need not wait for that.
        self._ask(dict.fromkeys(batch.line for batch in batches))
        if error is None:
            now, reads = time.perf_counter(), [read for batch in batches for read in batch.reads]
            for read, body in zip(reads, answers.result(), strict=True):
                record = read.record
                content = finished(body, (now - record.started) * 1000, record.request_id)
                self._write(read, 200, content, JSON, [])

    def _end(self, batches: Sequence[_Batch]) -> None:
        """The engine has done with `batches`."""
        for batch in batches:
            batch.line.n_asked -= 1
            batch.line.n_reads -= len(batch.reads)
            if not batch.line.n_reads:
                self._lines.pop(batch.line.client, None)

    def _fail(self, batches: Sequence[_Batch], error: Exception) -> None:
        self._end(batches)
        for batch in batches:
            for read in batch.reads:
                self._refuse(read, error)

    def _refuse(self, read: _Read, error: Exception) -> None:
        status, content, media, extra = self._gateway.refusal(error, read.record)
        self._write(read, status, content, media, extra)

    def _write(self, read: _Read, status: int, content: bytes, media: bytes, extra: Headers) -> None:
        """Write the whole response at once."""
        connection, header, record = read
        closes = CLOSE in extra
        if not closes and (header.closes or connection.must_close):
            extra, closes = [*extra, CLOSE], True
        now = int(time.time())
        if now != self._date_s:
            self._date_s, self._date = now, b"date: %b" % formatdate(now, usegmt=True).encode()
        further = b"".join([b"%b: %b\r\n" % field for field in extra]) if extra else b""
        start, request_id, n_bytes = _STATUS_LINES[status], record.request_id.encode(), len(content)
        response = _RESPONSE % (start, self._date, media, n_bytes, request_id, further, content)
        is_written = connection.end_read(response, closes=closes)
        self._gateway.count(record, ROUTE, status if is_written else CLIENT_GONE)

    def _parsed(self, text: bytes) -> _Header | None:
        """The header in `text`, which begins with the end of the request line; None if it is unusual."""
        fields: Headers = []
        closes = False
        for line in text[2:-4].split(b"\r\n") if len(text) > 4 else ():
            field = _FIELD.fullmatch(line)
            if field is None:
                return None
            name, value = field[1].lower(), field[2] or b""
            if name in _OF_THE_USUAL_WAY or (name == b"connection" and value.lower() not in (b"keep-alive", b"close")):
                return None
            closes = closes or (name == b"connection" and value.lower() == b"close")
            fields.append((name, value))
        return _Header(fields, self._gateway.headers(fields), closes)
