"""`RequestStream`: the bytes of one connection, divided into requests and held until they may be handed on."""

from __future__ import annotations

from service.api.framing import CHUNKED, HEAD_END, ChunkedBody, body_length
from service.errors import HeadTooLarge, MalformedRequest, UrlTooLong

MAX_BLANK_BYTES = 64  # bytes of line ends before a request; clients that send any send two


class RequestStream:
    """What has arrived on a connection and was not taken yet.

    Args:
        max_url_bytes: of a request line.
        max_head_bytes: of a request line with its headers.
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
        """Whether the request that was taken last has more of a body to come."""
        return bool(self._n_body) or self._chunks is not None

    def add(self, data: bytes) -> None:
        """Take in what arrived."""
        self._data = self._data[self._start :] + data if self._data else data
        self._start = 0

    def clear(self) -> None:
        """Forget everything."""
        self._data, self._start, self._n_body, self._chunks = b"", 0, 0, None

    def take_body(self) -> bytes:
        """What is there of the present body.

        Raises:
            MalformedRequest: its chunks are none.
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
        """The whole head of the next request, with what is there of a body of known length; empty if it is not whole.

        Raises:
            UrlTooLong, HeadTooLarge: it is too long, whole or not.
            MalformedRequest: where it ends is not clear, or this is no HTTP.
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
        """RFC 9112, section 2.2: empty lines before a request are ignored. A request begins with its method."""
        first = self._data[self._start : self._start + MAX_BLANK_BYTES + 1]
        rest = first.lstrip(b"\r\n")
        self._take(self._start + len(first) - len(rest))
        if len(first) - len(rest) > MAX_BLANK_BYTES or not (rest[:1] or b"A").isupper():
            raise MalformedRequest("Invalid request: expected HTTP/1.1 without TLS, which begins with a method")

    def _check_size(self, end: int) -> None:
        """Return if the head that reaches to `end`, or farther, is not too long yet."""
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
