"""A server on loopback that gives the answers of a script, one after the other, and keeps what it was asked."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Given(NamedTuple):
    """An answer; the connection breaks off instead if its status is 0."""

    status: int
    document: object = None
    headers: Mapping[str, str] = {}


class Asked(NamedTuple):
    """A request that came."""

    method: str
    path: str
    body: bytes


def problem(status: int, slug: str, **headers: str) -> Given:
    """A problem document of the service."""
    document = {"type": f"urn:nearfield:problem:{slug}", "title": slug, "detail": "wait", "request_id": "1"}
    return Given(
        status, {**document, "status": status}, {name.replace("_", "-"): text for name, text in headers.items()}
    )


class Scripted:
    """The server.

    Attributes:
        url: its address.
        asked: the requests that came, in order.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Asked] = []
        self.script: list[Given] = []

    def will_answer(self, *answers: Given) -> None:
        """Begin anew: the next requests get these answers."""
        self.asked.clear()
        self.script = list(answers)

    @property
    def bodies(self) -> Sequence[list[dict[str, object]]]:
        return [json.loads(one.body) for one in self.asked]


@contextmanager
def scripted_server() -> Iterator[Scripted]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            scripted.asked.append(Asked(self.command, self.path, body))
            given = scripted.script.pop(0)
            if not given.status:
                self.close_connection = True
                return
            content = json.dumps(given.document).encode()
            self.send_response(given.status)
            for name, text in {**given.headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        scripted = Scripted(f"http://127.0.0.1:{server.server_port}")
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield scripted
        server.shutdown()
        serving.join()
