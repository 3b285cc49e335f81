"""The target of webhooks as somebody would write it: a real HTTP server on loopback."""

import base64
import contextlib
import hashlib
import hmac
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import msgspec

HANGS = -1  # a status that is never answered


class Received(NamedTuple):
    """One request."""

    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return msgspec.json.decode(self.body)

    def is_signed_by(self, secret: str) -> bool:
        """As the specification Standard Webhooks says, written without our code."""
        signed = b".".join([self.headers["webhook-id"].encode(), self.headers["webhook-timestamp"].encode(), self.body])
        digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
        return self.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


class Receiver:
    """Keeps what comes to each path; answers with the statuses that `answer` names, then with 204."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.at: dict[str, list[Received]] = {}
        self._statuses: dict[str, list[int]] = {}
        self._is_over = threading.Event()

    def answer(self, path: str, *statuses: int) -> str:
        """The URL of a path whose next requests are answered with these statuses."""
        self._statuses[path] = list(statuses)
        self.at[path] = []
        return f"http://127.0.0.1:{self.port}{path}"

    def take(self, path: str, received: Received) -> int:
        self.at.setdefault(path, []).append(received)
        statuses = self._statuses.get(path) or [204]
        status = statuses[0] if statuses == [HANGS] else statuses.pop(0)
        if status == HANGS:
            self._is_over.wait()
        return 204 if status == HANGS else status

    def end(self) -> None:
        self._is_over.set()


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    receivers: list[Receiver] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with contextlib.suppress(OSError):  # who waits no longer
                self.send_response(receivers[0].take(self.path, Received(headers, body)))
                self.send_header("location", "/elsewhere")
                self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        receivers.append(Receiver(server.server_port))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield receivers[0]
        finally:
            receivers[0].end()
            server.shutdown()
