"""A small, fast HTTP/1.1 client: keep-alive connections with one request at a time on each."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

TIMEOUT_S = 30.0  # seconds to connect, and seconds to get an answer
MAX_CONNECTIONS = 1000  # open connections; further requests wait for one, which adds to their latency
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)


class Answer(NamedTuple):
    """Status, head and body of a response; status 0 if there was none."""

    status: int
    head: bytes
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


NO_ANSWER = Answer(0, b"", b"")


def message(method: str, path: str, head: str, body: bytes = b"") -> bytes:
    """One HTTP/1.1 request; `head` are header lines, `body` is JSON or empty."""
    if body:
        head = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


class Connection(asyncio.Protocol):
    """One keep-alive connection, with one request at a time. A subclass says what follows an answer."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._received = b""

    def answered(self, answer: Answer, is_last: bool) -> None:
        """Called with each response; `is_last` if the connection is closing, so that no request may follow."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one, but does not inherit from it

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        received = self._received + data
        end = received.find(b"\r\n\r\n") + 4
        length = int(found[1]) if (found := _LENGTH.search(received, 0, end)) else 0
        if end < 4 or len(received) < end + length:
            self._received = received
            return
        self._received = received[end + length :]
        is_last = _CLOSE.search(received, 0, end) is not None
        if is_last:
            self.transport.close()
        self.answered(Answer(int(received[9:12]), received[:end], received[end : end + length]), is_last)


class _Pooled(Connection):
    """A connection of a `Client`."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._answer: asyncio.Future[Answer] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def send(self, request: bytes, answer: asyncio.Future[Answer]) -> None:
        """Send a whole request; `answer` gets the response, or `NO_ANSWER` if the connection ends before it."""
        self._answer = answer
        self._deadline = asyncio.get_running_loop().call_later(TIMEOUT_S, self.transport.abort)
        self.transport.write(request)

    def answered(self, answer: Answer, is_last: bool) -> None:
        """Hand on the answer and wait for the next request."""
        self._finish(answer)
        if not is_last:
            self._client.freed(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self._finish(NO_ANSWER)
        self._client.lost(self)

    def _finish(self, answer: Answer) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)


class Client:
    """A pool of connections to one service; a request takes an idle one, opens another, or waits for one."""

    def __init__(self, url: str, key: str | None = None) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._path = address.path.rstrip("/")  # of a data set
        self._head = f"Host: {address.netloc}\r\n" + (f"X-API-Key: {key}\r\n" if key else "")
        self._idle: list[_Pooled] = []
        self._open: set[_Pooled] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._waiting: deque[tuple[bytes, asyncio.Future[Answer]]] = deque()

    def get(self, path: str) -> asyncio.Future[Answer]:
        """GET `path`, which includes the query."""
        return self.send(message("GET", self._path + path, self._head))

    def post(self, path: str, document: Any) -> asyncio.Future[Answer]:
        """POST `document` as JSON."""
        return self.send(message("POST", self._path + path, self._head, json.dumps(document).encode()))

    def send(self, request: bytes) -> asyncio.Future[Answer]:
        """Send a whole request; the future gets the answer, or `NO_ANSWER` after a failure or a timeout."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self._idle:
            self._idle.pop().send(request, answer)
        else:
            self._waiting.append((request, answer))
            self._open_another()
        return answer

    async def open(self, n: int) -> None:
        """Open connections until there are `n` or `MAX_CONNECTIONS`; fewer if the service refuses more."""
        missing = min(n, MAX_CONNECTIONS) - len(self._open) - len(self._opening)
        await asyncio.gather(*(self._connect() for _ in range(missing)))

    async def close(self) -> None:
        """Close every connection."""
        self._idle.clear()
        for connection in tuple(self._open):
            connection.transport.abort()
        while self._open:
            await asyncio.sleep(0)

    def freed(self, connection: _Pooled) -> None:
        """Called by a connection that has got its answer."""
        if self._waiting:
            connection.send(*self._waiting.popleft())
        else:
            self._idle.append(connection)

    def lost(self, connection: _Pooled) -> None:
        """Called by a connection that is closed."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._waiting:
            self._open_another()

    def _open_another(self) -> None:
        if len(self._open) + len(self._opening) < MAX_CONNECTIONS:
            opening = asyncio.create_task(self._connect())
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                _, connection = await loop.create_connection(lambda: _Pooled(self), self._host, self._port)
        except (OSError, TimeoutError):
            if self._waiting:
                self._waiting.popleft()[1].set_result(NO_ANSWER)
        else:
            self._open.add(connection)
            self.freed(connection)
