"""One request of the corpus, its bytes on the wire, and the answer as it came."""

from __future__ import annotations

import base64
import contextlib
import http.client
import re
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

TIMEOUT_S = 60.0
PLACE = re.compile(r"\$\{(\w+)\}")  # stands for a value of an earlier answer


class Request(NamedTuple):
    """One request.

    Attributes:
        name: of the request, once in the corpus.
        method, target, body: as they are sent; text is Latin-1 in `target` and `headers`.
        headers: (name, value); Host and Content-Length come by themselves.
        saves: field of the answer, such as `job.id`, whose value `${name}` has in later requests, and this name.
        is_loose: whether only the shape of a good answer is the same at all times.
        is_raw: whether `body` is all that is sent, on a connection of its own.
    """

    name: str
    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    saves: tuple[str, str] | None = None
    is_loose: bool = False
    is_raw: bool = False

    def record(self) -> dict[str, Any]:
        """As the kept file has it."""
        kept: dict[str, Any] = {"name": self.name, "send": [self.method, self.target]}
        if self.headers:
            kept["headers"] = [list(header) for header in self.headers]
        if self.body is not None:
            try:
                kept["body"] = self.body.decode()
            except UnicodeDecodeError:
                kept["base64"] = base64.b64encode(self.body).decode()
        kept |= {"saves": list(self.saves)} if self.saves else {}
        kept |= {name: True for name in ("is_loose", "is_raw") if getattr(self, name)}
        return kept

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Request:
        """The request of a line of the kept file."""
        text, saves = kept.get("body"), kept.get("saves")
        return cls(
            name=kept["name"],
            method=kept["send"][0],
            target=kept["send"][1],
            headers=tuple((name, value) for name, value in kept.get("headers", ())),
            body=base64.b64decode(kept["base64"]) if "base64" in kept else None if text is None else text.encode(),
            saves=(saves[0], saves[1]) if saves else None,
            is_loose=kept.get("is_loose", False),
            is_raw=kept.get("is_raw", False),
        )

    def filled(self, values: Mapping[str, str]) -> Request:
        """The same with values of earlier answers."""

        def fill(text: str) -> str:
            return PLACE.sub(lambda found: values.get(found[1], found[0]), text)

        body = self.body
        if body is not None and b"${" in body:
            body = fill(body.decode("latin-1")).encode("latin-1")
        headers = tuple((name, fill(value)) for name, value in self.headers)
        return self._replace(target=fill(self.target), headers=headers, body=body)

    def content(self, host: str) -> bytes:
        """All bytes to send."""
        if self.is_raw:
            return self.body or b""
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        names = {name.lower() for name, _ in self.headers}
        if "host" not in names:
            lines.append(f"Host: {host}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.body is not None and not names & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (self.body or b"")


class Answer(NamedTuple):
    """Status, headers by lower-case name, and body; status 0 if the service closed the connection without an answer."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """Sends requests one after the other, on one connection as long as the service keeps it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._address, self.host = (parts.hostname, parts.port), parts.netloc
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, request: Request) -> Answer:
        """The answer to `request`."""
        if request.is_raw:
            self.close()
        if self._socket is None:
            self._socket = socket.create_connection(self._address, TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # refused before its end; the answer is there all the same
            self._socket.sendall(request.content(self.host))
        response = http.client.HTTPResponse(self._socket, method=request.method)
        try:
            response.begin()
            body = response.read()
        except (http.client.HTTPException, OSError):
            self.close()
            return Answer(0, {}, b"")
        headers = {name.lower(): value for name, value in response.getheaders()}
        if request.is_raw or response.will_close:
            self.close()
        return Answer(response.status, headers, body)
