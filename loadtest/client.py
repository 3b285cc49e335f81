"""A small HTTP/1.1 client: keep-alive connections, one request at a time on each, as little work as possible."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit

TIMEOUT_S = 30.0


class Answer(NamedTuple):
    """Status and body of a response; status 0 where there was none."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


NO_ANSWER = Answer(0, b"")
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Client:
    """A pool of connections to one service; a request takes an idle one or opens another."""

    def __init__(self, url: str, key: str | None = None) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._head = f"Host: {address.netloc}\r\n" + (f"X-API-Key: {key}\r\n" if key else "")
        self._idle: list[Connection] = []

    async def get(self, path: str) -> Answer:
        """GET `path`, query included."""
        return await self.send(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())

    async def post(self, path: str, document: Any) -> Answer:
        """POST `document` as JSON."""
        body = json.dumps(document).encode()
        head = f"{self._head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return await self.send(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)

    async def send(self, message: bytes) -> Answer:
        """Send a whole message and read the answer; a failed connection is an answer with status 0."""
        try:
            return await asyncio.wait_for(self._exchange(message), TIMEOUT_S)
        except (OSError, EOFError, TimeoutError):
            return NO_ANSWER

    async def close(self) -> None:
        """Close what is idle."""
        for _, writer in self._idle:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in self._idle), return_exceptions=True)
        self._idle.clear()

    async def _exchange(self, message: bytes) -> Answer:
        reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            answer = Answer(int(head[9:12]), await reader.readexactly(_content_length(head)))
        except BaseException:
            writer.close()
            raise
        if b"connection: close" in head.lower():
            writer.close()
        else:
            self._idle.append((reader, writer))
        return answer


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
