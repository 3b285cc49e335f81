"""`RequestStream`: divides the bytes of one connection into requests, and holds them until they are taken."""

from __future__ import annotations

from service.api.door.framing import CHUNKED, HEAD_END, ChunkedBody, body_length
from service.api.errors import HeadTooLarge, MalformedRequest, UrlTooLong

MAX_BLANK_BYTES = 64  # bytes of line ends before a request; real clients send none or two


class RequestStream:
    """Bytes of a connection that were not taken yet.

    Args:
        max_url_bytes: longest request line.
        max_head_bytes: longest request line with headers.
    """

    def __init__(self, max_url_bytes: int, max_head_bytes: int) -> None:
        self._max_url_bytes, self._max_head_bytes = max_url_bytes, max_head_bytes
        self._data, self._start = b"", 0  # bytes before `_start` were taken
        self._n_body = 0  # bytes of the present body that were not taken
        self._chunks: ChunkedBody | None = None

    @property
    def n_held(self) -> int:
        """Bytes that were not taken yet."""
        return len(self._data) - self._start

    @property
    def has_body(self) -> bool:
        """Whether the body of the last request is not completely taken."""
        return bool(self._n_body) or self._chunks is not None

    def add(self, data: bytes) -> None:
        """Append received bytes."""
        self._data = self._data[self._start :] + data if self._data else data
        self._start = 0

    def clear(self) -> None:
        """Forget everything."""
        self._data, self._start, self._n_body, self._chunks = b"", 0, 0, None

    def take_body(self) -> bytes:
        """Take the part of the present body that has arrived.

        Raises:
            MalformedRequest: its chunks are malformed.
        """
        if self._chunks is None:
            end = min(self._start + self._n_body, len(self._data))
            self._n_body -= end - self._start
            return self._take(end)
        end = self._chunks.end(self._data, self._start)
        if self._chunks.is_complete:
            self._chunks = None
        return self._take(end)

    def take_request(self) -> bytes:
        """Take the head of the next request, and what has arrived of a body of known length; empty until it is
        complete.

        Raises:
            UrlTooLong, HeadTooLarge: it is too long, complete or not.
            MalformedRequest: its end cannot be determined, or it is not HTTP.
        """
        self._find_method()
        if not self._data:
            return b""
        n_before_end = self._data.find(HEAD_END, self._start)
        end = len(self._data) if n_before_end < 0 else n_before_end + len(HEAD_END)
        self._check_size(end)
        if n_before_end < 0:
            return b""
        n_body = body_length(self._data[self._start : end])
        if n_body == CHUNKED:
            self._chunks = ChunkedBody()
            return self._take(end)
        end_of_piece = min(end + n_body, len(self._data))
        self._n_body = n_body - (end_of_piece - end)
        return self._take(end_of_piece)

    def _find_method(self) -> None:
        """Skip empty lines before a request (RFC 9112, section 2.2), and check that it begins with a method."""
        first = self._data[self._start : self._start + MAX_BLANK_BYTES + 1]
        rest = first.lstrip(b"\r\n")
        self._take(self._start + len(first) - len(rest))
        if len(first) - len(rest) > MAX_BLANK_BYTES or not (rest[:1] or b"A").isupper():
            raise MalformedRequest("Invalid request: expected HTTP/1.1 without TLS, which begins with a method")

    def _check_size(self, end: int) -> None:
        """Check that the head, which reaches at least to `end`, is not too long."""
        line_end = self._data.find(b"\r\n", self._start, end)
        if (end if line_end < 0 else line_end) - self._start > self._max_url_bytes:
            raise UrlTooLong(
                f"Invalid URL: expected a request line of at most {self._max_url_bytes:,} bytes;"
                " send long lists in the body of a POST"
            )
        if end - self._start > self._max_head_bytes:
            raise HeadTooLarge(
                f"Invalid headers: expected at most {self._max_head_bytes:,} bytes together; send fewer or shorter ones"
            )

    def _take(self, end: int) -> bytes:
        data = self._data[self._start : end]
        self._start = end
        if end == len(self._data):
            self._data, self._start = b"", 0
        return data
