"""A small HTTP/1.1 client: keep-alive connections, one request at a time on each, as little work as possible."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

TIMEOUT_S = 30.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)


class Answer(NamedTuple):
    """Status, head and body of a response; status 0 where there was none."""

    status: int
    head: bytes
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


NO_ANSWER = Answer(0, b"", b"")


class Connection(asyncio.Protocol):
    """One connection; a request at a time."""

    def __init__(self, idle: list[Connection], every: set[Connection]) -> None:
        self._idle, self._every, self._received = idle, every, b""
        self._answer: asyncio.Future[Answer] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def send(self, message: bytes, answer: asyncio.Future[Answer]) -> None:
        """Send a whole message; `answer` gets what comes back."""
        self._answer = answer
        self._deadline = asyncio.get_running_loop().call_later(TIMEOUT_S, self.close)
        self._transport.write(message)

    def close(self) -> None:
        """Close; whoever still waits gets no answer."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one, but does not inherit from it
        self._every.add(self)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._received += data
        end = self._received.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        head = self._received[:end]
        length = int(found[1]) if (found := _LENGTH.search(head)) else 0
        if len(self._received) >= end + length:
            body, self._received = self._received[end : end + length], self._received[end + length :]
            self._finish(Answer(int(head[9:12]), head, body))
            if _CLOSE.search(head):
                self._transport.close()
            else:
                self._idle.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self._every.discard(self)
        if self in self._idle:
            self._idle.remove(self)
        self._finish(NO_ANSWER)

    def _finish(self, answer: Answer) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)


class Client:
    """A pool of connections to one service; a request takes an idle one or opens another."""

    def __init__(self, url: str, key: str | None = None) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._head = f"Host: {address.netloc}\r\n" + (f"X-API-Key: {key}\r\n" if key else "")
        self._idle: list[Connection] = []
        self._every: set[Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()

    def get(self, path: str) -> asyncio.Future[Answer]:
        """GET `path`, query included."""
        return self.send(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())

    def post(self, path: str, document: Any) -> asyncio.Future[Answer]:
        """POST `document` as JSON."""
        body = json.dumps(document).encode()
        head = f"{self._head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return self.send(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)

    def send(self, message: bytes) -> asyncio.Future[Answer]:
        """Send a whole message; the answer, `NO_ANSWER` where the connection failed or nothing came in time."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self._idle:
            self._idle.pop().send(message, answer)
        else:
            opening = asyncio.create_task(self._open(message, answer))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)
        return answer

    async def close(self) -> None:
        """Close every connection."""
        self._idle.clear()
        for connection in tuple(self._every):
            connection.close()
        while self._every:
            await asyncio.sleep(0)

    async def _open(self, message: bytes, answer: asyncio.Future[Answer]) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                connect = loop.create_connection(lambda: Connection(self._idle, self._every), self._host, self._port)
                _, connection = await connect
        except (OSError, TimeoutError):
            answer.set_result(NO_ANSWER)
        else:
            connection.send(message, answer)
