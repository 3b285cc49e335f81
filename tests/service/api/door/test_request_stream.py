"""Requests come out whole and in order, however they arrive, and never longer than allowed."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.door.request_stream import MAX_BLANK_BYTES, RequestStream
from service.api.errors import HeadTooLarge, MalformedRequest, UrlTooLong

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /b HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde"
CHUNKS = b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
BLANK = b"\r\n"
MAX_URL, MAX_HEAD = 100, 200


def taken(stream: RequestStream) -> list[bytes]:
    """Everything that can be taken now, the bodies with their requests as far as they are there."""
    pieces = []
    while stream.n_held:
        piece = stream.take_body() if stream.has_body else stream.take_request()
        if not piece:
            break
        pieces.append(piece)
    return pieces


@given(sent=st.lists(st.sampled_from([GET, POST, CHUNKS, BLANK]), max_size=8), size=st.integers(1, 60))
def test_requests_come_out_one_by_one_and_unchanged(sent: list[bytes], size: int) -> None:
    data = b"".join(sent)
    stream, pieces = RequestStream(MAX_URL, MAX_HEAD), []
    for start in range(0, len(data), size):
        stream.add(data[start : start + size])
        pieces += taken(stream)
    requests = [message for message in sent if message is not BLANK]
    assert b"".join(pieces) == b"".join(requests)
    assert sum(piece.startswith((b"GET", b"POST")) for piece in pieces) == len(requests)
    assert not stream.n_held
    assert not stream.has_body


@given(sent=st.lists(st.sampled_from([GET, POST, CHUNKS]), max_size=6))
def test_one_request_at_a_time_is_one_for_the_parser_too(sent: list[bytes]) -> None:
    class Seen:
        n_complete = 0

        def on_message_complete(self) -> None:
            self.n_complete += 1

    seen, stream = Seen(), RequestStream(MAX_URL, MAX_HEAD)
    parser = httptools.HttpRequestParser(seen)
    stream.add(b"".join(sent))
    for number in range(len(sent)):
        assert seen.n_complete == number
        parser.feed_data(stream.take_request())
        while stream.has_body:
            parser.feed_data(stream.take_body())
    assert seen.n_complete == len(sent)


def test_a_body_is_taken_as_it_comes() -> None:
    stream = RequestStream(MAX_URL, MAX_HEAD)
    stream.add(POST[:-3])
    assert stream.take_request() == POST[:-3]
    assert stream.has_body
    stream.add(POST[-3:] + GET)
    assert stream.take_body() == POST[-3:]
    assert not stream.has_body
    assert stream.take_request() == GET


def request(n_url: int, n_fields: int) -> bytes:
    line = b"GET /".ljust(n_url - len(b" HTTP/1.1"), b"u") + b" HTTP/1.1\r\n"
    return line + b"X: ".ljust(n_fields - len(line) - len(b"\r\n\r\n"), b"f") + b"\r\n\r\n"


def test_the_longest_head_is_taken() -> None:
    longest = request(MAX_URL, MAX_HEAD)
    assert len(longest) == MAX_HEAD
    stream = RequestStream(MAX_URL, MAX_HEAD)
    stream.add(longest)
    assert stream.take_request() == longest


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize(
    ("too_long", "error"), [(request(MAX_URL + 1, MAX_HEAD), UrlTooLong), (request(50, MAX_HEAD + 1), HeadTooLarge)]
)
def test_a_head_that_is_too_long_is_refused_as_soon_as_it_is(
    too_long: bytes, error: type[Exception], is_whole: bool
) -> None:
    stream = RequestStream(MAX_URL, MAX_HEAD)
    end = len(too_long) if is_whole else (MAX_URL if error is UrlTooLong else MAX_HEAD) + 1
    if not is_whole:
        stream.add(too_long[: end - 1])
        assert stream.take_request() == b""
        too_long = too_long[end - 1 :]
    stream.add(too_long[:end])
    with pytest.raises(error):
        stream.take_request()


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00", b" GET / HTTP/1.1\r\n\r\n", b"\r\n" * MAX_BLANK_BYTES])
def test_bytes_that_do_not_begin_with_a_method_are_refused_at_once(data: bytes) -> None:
    stream = RequestStream(MAX_URL, MAX_HEAD)
    stream.add(data)
    with pytest.raises(MalformedRequest):
        stream.take_request()
