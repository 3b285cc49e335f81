"""A server that speaks as much of Kafka's protocol as a client needs to log in: TLS, and SASL with PLAIN."""

import contextlib
import socketserver
import ssl
import struct
import threading
from collections.abc import Iterator

API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA = 18, 17, 36, 3
REFUSED, UNKNOWN_VERSION = 58, 35  # codes of errors


class Broker(socketserver.ThreadingTCPServer):
    """Lets one user in, and ends the connection at the first request after the login.

    Attributes:
        n_logins: attempts to log in.
        asked: numbers of the requests that came after a login.
    """

    daemon_threads = True

    def __init__(self, user: str, password: str, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.login, self.tls = f"\0{user}\0{password}".encode(), tls
        self.n_logins = 0
        self.asked: list[int] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Connection(socketserver.BaseRequestHandler):
    server: Broker

    def handle(self) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:  # also errors of TLS
            if self.server.tls is not None:
                self.request = stack.enter_context(self.server.tls.wrap_socket(self.request, server_side=True))
            with self.request.makefile("rb") as file:
                while len(length := file.read(4)) == 4:
                    raw = file.read(*struct.unpack(">i", length))
                    key, version, number, n_name = struct.unpack(">hhih", raw[:10])
                    content = self._answer(key, version, raw[10 + max(n_name, 0) :])
                    self.request.sendall(struct.pack(">ii", len(content) + 4, number) + content)

    def _answer(self, key: int, version: int, body: bytes) -> bytes:
        if key == API_VERSIONS:
            apis = (API_VERSIONS, 0), (HANDSHAKE, 1), (AUTHENTICATE, 0), (METADATA, 2)
            ranges = b"".join(struct.pack(">hhh", api, 0, newest) for api, newest in apis)
            return struct.pack(">hi", UNKNOWN_VERSION if version else 0, len(apis)) + ranges
        if key == HANDSHAKE:
            return struct.pack(">hih", 0, 1, 5) + b"PLAIN"
        if key == AUTHENTICATE:
            self.server.n_logins += 1
            is_right = body[4:] == self.server.login
            text = struct.pack(">h", -1) if is_right else struct.pack(">h", 9) + b"not known"
            return struct.pack(">h", 0 if is_right else REFUSED) + text + struct.pack(">i", 0)
        self.server.asked.append(key)
        raise ConnectionResetError


@contextlib.contextmanager
def serving(user: str, password: str, tls: ssl.SSLContext | None = None) -> Iterator[Broker]:
    """A broker in a thread."""
    with Broker(user, password, tls) as broker:
        threading.Thread(target=broker.serve_forever, args=(0.01,), daemon=True).start()
        yield broker
        broker.shutdown()
