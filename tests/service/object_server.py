"""A server in this process that speaks the few requests of S3 that we need, and lets tests disturb them."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


class ObjectServer(ThreadingHTTPServer):
    """Keeps objects by path, such as /bucket/name. Requests to write need a signature; those to read do not.

    Attributes:
        objects: path to content.
        buckets: those that exist.
        is_open: whether requests are permitted at all.
        halt: a path whose next request is not answered completely: the first half of a read, nothing of a write.
        halted: set when such a request has come.
        failures: number of next requests that get 503.
        requests: method and path of every request.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.buckets = {"bucket"}
        self.is_open, self.failures = True, 0
        self.halt: str | None = None
        self.halted, self.go_on = threading.Event(), threading.Event()
        self.requests: list[tuple[str, str]] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a client."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_REGION": "test",
        }

    def handle_error(self, *_: object) -> None:
        """A client that was killed has gone."""

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.go_on.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ObjectServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if "list-type" in parse_qs(urlsplit(self.path).query):
            self._list()
        elif not self._is_refused() and (content := self.server.objects.get(self._path)) is not None:
            first = self.headers.get("range", "bytes=0-").removeprefix("bytes=").split("-")[0]
            start = int(first) if "range" in self.headers else 0
            self._answer(206 if start else 200, content[start:])
        elif not self.wfile.closed and not self._answered:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_DELETE(self) -> None:
        if not self._is_refused():
            self.server.objects.pop(self._path, None)
            self._answer(204, b"")

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        if self._is_refused():
            return
        query = parse_qs(urlsplit(self.path).query)
        if "uploadId" in query:
            self.server.parts[self._path][int(query["partNumber"][0])] = content
        else:
            self.server.objects[self._path] = content
        self._answer(200, b"")

    def _list(self) -> None:
        """The objects of a bucket below a prefix; their names need no escapes."""
        above = f"{self._path.rstrip('/')}/"
        prefix = above + parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]
        found = "".join(
            f"<Contents><Key>{path.removeprefix(above)}</Key><Size>{len(content)}</Size><ETag>e</ETag>"
            "<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
            for path, content in list(self.server.objects.items())
            if path.startswith(prefix)
        )
        if not self._is_refused():
            self._answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode())

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self._is_refused():
            return
        if "delete" in parse_qs(urlsplit(self.path).query, keep_blank_values=True):
            names = re.findall(r"<Key>(.*?)</Key>", sent.decode())
            for name in names:
                self.server.objects.pop(f"{self._path.rstrip('/')}/{name}", None)
            deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
            body = f"<DeleteResult>{deleted}</DeleteResult>"
        elif "uploadId" in parse_qs(urlsplit(self.path).query):
            parts = self.server.parts.pop(self._path)
            self.server.objects[self._path] = b"".join(parts[n] for n in sorted(parts))
            body = "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
        else:
            self.server.parts[self._path] = {}
            body = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
        self._answer(200, body.encode())

    @property
    def _path(self) -> str:
        return unquote(urlsplit(self.path).path)

    def _is_refused(self) -> bool:
        """Answer, if the answer is another one than that of a working store."""
        server, self._answered = self.server, False
        server.requests.append((self.command, self._path))
        status = 0
        if server.failures:
            server.failures -= 1
            status = 503
        elif not server.is_open or (self.command != "GET" and "authorization" not in self.headers):
            status = 403
        elif self._path.split("/")[1] not in server.buckets:
            status = 404
        elif server.halt == self._path:
            self._halt()
            return True
        if status:
            self._answer(status, b"<Error><Code>No</Code></Error>")
        return bool(status)

    def _halt(self) -> None:
        server, self._answered, self.close_connection = self.server, True, True
        if self.command == "GET":
            content = server.objects[self._path]
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
        server.halted.set()
        server.go_on.wait(60)

    def _answer(self, status: int, content: bytes) -> None:
        self._answered = True
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.send_header("etag", '"e"')
        self.send_header("last-modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(content)
