"""Finds the end of an HTTP/1.1 request (RFC 9112, section 6) without parsing it.

The parser behind decides what a request means. This module only divides the bytes into requests, and refuses requests
that two readers could divide or direct differently: with two lengths, a length and chunks, an encoding other than
chunks, or two hosts.
"""

from __future__ import annotations

import re

from service.api.errors import MalformedRequest

HEAD_END = b"\r\n\r\n"
CHUNKED = -1  # stands for the length of a body in chunks
LENGTH_NAME, ENCODING_NAME, HOST_NAME = b"\r\ncontent-length:", b"\r\ntransfer-encoding:", b"\r\nhost:"
MAX_KEPT_BYTES = 1024  # bytes of header fields kept for comparison; 4,096 connections keep 4 MiB
MAX_LINE_BYTES = 256  # bytes of a chunk's size line: at most 16 of the hexadecimal size, the rest for extensions
MAX_TRAILER_BYTES = 8 << 10  # bytes; the service uses no trailer
MAX_CHUNKS = 16 << 10  # chunks of one body; each costs the event loop 2 µs, 33 ms in all
# Two readers could take for the end of a line, or for a line of its own: half a line end, a line that goes on in the
# next one (obs-fold), and a zero byte.
_AMBIGUOUS = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]|\0")
_TRAILER = re.compile(rb"[\w!#$%&'*+.^`|~-]+:[^\r\n\0]*\r\n", re.ASCII)
_SIZE = re.compile(rb"([0-9a-fA-F]{1,16})(?:;[^\r\n]*)?\r\n")


def body_length(head: bytes) -> int:
    """Length in bytes of the body after the head of a request; `CHUNKED` for a body in chunks.

    Raises:
        MalformedRequest: two readers of this head could disagree on its lines, on the length or on the host.
    """
    if _AMBIGUOUS.search(head) is not None:
        raise MalformedRequest(
            "Invalid headers: expected one in each line, each line with \\r\\n at its end, without zero bytes"
        )
    lowered = head.lower()
    if (n_hosts := lowered.count(HOST_NAME)) > 1:  # RFC 9112, section 3.2
        raise MalformedRequest(f"Invalid Host: expected one such header, got {n_hosts}")
    has_length, has_encoding = lowered.find(LENGTH_NAME) >= 0, lowered.find(ENCODING_NAME) >= 0
    if has_encoding:
        if has_length or _value(lowered, ENCODING_NAME) != b"chunked":
            raise MalformedRequest("Invalid Transfer-Encoding: expected chunked, once, and no Content-Length")
        return CHUNKED
    if not has_length:
        return 0
    length = _value(lowered, LENGTH_NAME)
    if not (length.isdigit() and len(length) <= 18):
        raise MalformedRequest("Invalid Content-Length: expected one number of bytes")
    return int(length)


def _value(lowered: bytes, name: bytes) -> bytes:
    """The value of a header that may occur only once; empty if it occurs twice."""
    start = lowered.index(name) + len(name)
    if name in lowered[start:]:
        return b""
    return lowered[start : lowered.index(b"\r\n", start)].strip(b" \t")


class PlainRequests:
    """Recognizes whole requests without a body.

    Args:
        max_bytes: longest such request.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._fields = b""  # of the last one: most clients repeat them

    def includes(self, data: bytes) -> bool:
        """Whether `data` is exactly one request, without a body."""
        if len(data) > self._max_bytes:
            return False
        fields = data[data.find(b"\r\n") :]
        # The first byte: blank lines are no part of a request.
        return (fields == self._fields or self._are_plain(fields)) and data[0] > 32

    def _are_plain(self, fields: bytes) -> bool:
        """Whether `fields`, all bytes after the first line, are exactly the header of a request without a body."""
        try:
            is_plain = 0 <= fields.find(HEAD_END) == len(fields) - len(HEAD_END) and not body_length(fields)
        except MalformedRequest:
            return False
        if is_plain and len(fields) <= MAX_KEPT_BYTES:
            self._fields = fields
        return is_plain


class ChunkedBody:
    """Finds the end of a body in chunks, piece by piece as it arrives.

    Attributes:
        is_complete: whether the last chunk and the trailers have come.
    """

    def __init__(self) -> None:
        self.is_complete = False
        self._n_left = 0  # bytes of the present chunk, including its CRLF
        self._n_chunks = self._n_trailer_bytes = 0
        self._line = b""
        self._is_trailer = False

    def end(self, data: bytes, start: int) -> int:
        """End of the body in `data`, searched from `start` on; the length of `data` if the body goes on.

        Raises:
            MalformedRequest: the bytes are not chunks, or there are too many chunks.
        """
        while start < len(data) and not self.is_complete:
            if self._n_left:
                n_bytes = min(self._n_left, len(data) - start)
                self._n_left -= n_bytes
                start += n_bytes
            else:
                start = self._read_line(data, start)
        return start

    def _read_line(self, data: bytes, start: int) -> int:
        end = data.find(b"\n", start) + 1 or len(data)
        self._line += data[start:end]
        limit = MAX_TRAILER_BYTES if self._is_trailer else MAX_LINE_BYTES
        if len(self._line) > limit - self._n_trailer_bytes:
            raise MalformedRequest(f"Invalid chunk: expected lines of at most {limit} bytes")
        if self._line.endswith(b"\n"):
            line, self._line = self._line, b""
            self._read_trailer(line) if self._is_trailer else self._read_size(line)
        return end

    def _read_size(self, line: bytes) -> None:
        size = _SIZE.fullmatch(line)
        self._n_chunks += 1
        if size is None or self._n_chunks > MAX_CHUNKS:
            raise MalformedRequest(
                f"Invalid chunk: expected at most {MAX_CHUNKS:,}, each with its size in hexadecimal; use Content-Length"
            )
        n_bytes = int(size[1], 16)
        self._n_left = n_bytes + 2 if n_bytes else 0
        self._is_trailer = not n_bytes

    def _read_trailer(self, line: bytes) -> None:
        self._n_trailer_bytes += len(line)
        self.is_complete = line == b"\r\n"
        if not self.is_complete and _TRAILER.fullmatch(line) is None:
            raise MalformedRequest("Invalid trailer: expected NAME: VALUE in each line")
