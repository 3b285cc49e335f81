"""Where requests end: as the parser behind sees it, or refused."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.door.framing import (
    CHUNKED,
    MAX_CHUNKS,
    MAX_LINE_BYTES,
    MAX_TRAILER_BYTES,
    ChunkedBody,
    PlainRequests,
    body_length,
)
from service.api.errors import MalformedRequest


def head(*fields: str) -> bytes:
    return "".join(f"{line}\r\n" for line in ("POST / HTTP/1.1", *fields, "")).encode()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([], 0),
        (["Content-Length: 0"], 0),
        (["CONTENT-LENGTH:  17\t"], 17),
        (["X-Content-Length: 3"], 0),
        (["transfer-encoding: Chunked"], CHUNKED),
    ],
)
def test_the_length_of_a_body(fields: list[str], expected: int) -> None:
    assert body_length(head(*fields)) == expected


@pytest.mark.parametrize(
    "fields",
    [
        ["Content-Length: 3", "Content-Length: 3"],
        ["Content-Length: 3", "content-length: 4"],
        ["Content-Length: 3, 3"],
        ["Content-Length: +3"],
        ["Content-Length: 3.0"],
        ["Content-Length: 0x3"],
        ["Content-Length:"],
        ["Content-Length: 9999999999999999999"],
        ["Transfer-Encoding: chunked", "Content-Length: 3"],
        ["Content-Length: 3", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding:"],
    ],
)
def test_a_length_that_two_readers_could_take_differently_is_refused(fields: list[str]) -> None:
    with pytest.raises(MalformedRequest):
        body_length(head(*fields))


@pytest.mark.parametrize("second", ["Host: localhost", "host: evil.example", "HOST:", "hOsT:\tlocalhost"])
def test_a_second_host_is_refused(second: str) -> None:
    doubled = head("Host: localhost", "X-Host: other", second)
    with pytest.raises(MalformedRequest, match="Invalid Host: expected one such header, got 2"):
        body_length(doubled)
    assert not PlainRequests(1000).includes(doubled.replace(b"POST", b"GET"))
    assert body_length(head("Host: localhost", "X-Host: other", "X-Forwarded-Host: evil.example")) == 0


class Messages:
    """What the parser of the server sees."""

    def __init__(self) -> None:
        self.n_complete, self.body = 0, b""
        self.parser = httptools.HttpRequestParser(self)

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.n_complete += 1


chunk_lists = st.lists(st.binary(min_size=1, max_size=40), max_size=8)
trailers = st.lists(st.sampled_from([b"A: b\r\n", b"X-Content-Length: 9\r\n", b"Expires: never\r\n"]), max_size=3)


@given(chunks=chunk_lists, ends=trailers, extension=st.sampled_from([b"", b";a=1"]), pieces=st.integers(1, 50))
def test_a_body_in_chunks_ends_where_the_parser_sees_its_end(
    chunks: list[bytes], ends: list[bytes], extension: bytes, pieces: int
) -> None:
    body = b"".join(b"%X%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    body += b"0\r\n" + b"".join(ends) + b"\r\n"
    sent = body + b"GET /next HTTP/1.1\r\n"
    seen, reader, n_taken = Messages(), ChunkedBody(), 0
    seen.parser.feed_data(head("Transfer-Encoding: chunked"))
    for start in range(0, len(sent), pieces):
        piece = sent[start : start + pieces]
        if not reader.is_complete:
            end = reader.end(piece, 0)
            seen.parser.feed_data(piece[:end])
            n_taken += end
            assert reader.is_complete == (seen.n_complete == 1)
    assert (n_taken, seen.body) == (len(body), b"".join(chunks))


@pytest.mark.parametrize(
    "body",
    [
        b"5\nabcde\r\n",
        b"\r\n",
        b" 5\r\n",
        b"-5\r\n",
        b"0x5\r\n",
        b"5_0\r\n",
        b"1" * 17 + b"\r\n",
        b"x" * (MAX_LINE_BYTES + 1),
        b"5;" + b"x" * MAX_LINE_BYTES + b"\r\n",
        b"0\r\n" + (b"A: " + b"x" * 1000 + b"\r\n") * (MAX_TRAILER_BYTES // 1000 + 1),
        b"1\r\nx\r\n" * (MAX_CHUNKS + 1),
    ],
)
def test_invalid_or_too_many_chunks_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        ChunkedBody().end(body, 0)


@pytest.mark.parametrize("bad", ["X: a\nContent-Length: 2", "X: a\rY: b", "X: a\r\n b", "X: a\r\n\tb", "X: a\0"])
def test_a_head_whose_lines_two_readers_could_take_differently_is_refused(bad: str) -> None:
    with pytest.raises(MalformedRequest):
        body_length(head(bad))
    assert not PlainRequests(1000).includes(head(bad).replace(b"POST", b"GET"))


@pytest.mark.parametrize("bad", [b" X: a\r\n", b"X: a\n", b"X : a\r\n", b"X: a\0\r\n", b"X\r\n", b"X: a\r b\r\n"])
def test_a_trailer_that_is_no_field_is_refused(bad: bytes) -> None:
    with pytest.raises(MalformedRequest):
        ChunkedBody().end(b"0\r\n" + bad + b"\r\n", 0)
