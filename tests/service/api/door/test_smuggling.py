"""Bytes that two readers could divide differently, over raw sockets: what comes after the head counts for nothing."""

import contextlib
import itertools
import socket
from collections.abc import Iterator

import pytest

from tests.service.process import Service
from tests.service.waiting import eventually

KEY = "key-of-every-client"
RATING = b'{"user": "u", "item": "i", "rating": 4}'
CHUNKS = b"%x\r\n%b\r\n0\r\n" % (len(RATING), RATING)
HEAD = b"POST /ratings HTTP/1.1\r\nHost: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
WITH_KEY = b"X-API-Key: %b\r\n" % KEY.encode()
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("smuggling") / "data"
    running = Service(data, worker=False, api_key=KEY, admin_key="key-of-the-admins")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def without_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("without-keys") / "data"
    running = Service(data, worker=False, trusted_proxies="127.0.0.0/8", rate_limit_per_s=1)
    yield running
    running.stop()


def statuses(service: Service, request: bytes) -> list[int]:
    """The statuses of all answers to what is sent at once, until the service closes or waits for more."""
    data = b""
    with socket.create_connection(("127.0.0.1", service.client.base_url.port or 0), timeout=60) as connection:
        connection.sendall(request)
        with contextlib.suppress(OSError):
            while piece := connection.recv(1 << 16):
                data += piece
    return [int(part[:3]) for part in data.split(b"HTTP/1.1 ")[1:]]


def chunked(*fields: bytes, trailers: bytes = b"") -> bytes:
    return HEAD + b"".join(fields) + CHUNKED + b"Connection: close\r\n\r\n" + CHUNKS + trailers + b"\r\n"


def test_trailers_do_not_harm(service: Service) -> None:
    assert statuses(service, chunked(WITH_KEY, JSON, trailers=b"Expires: never\r\n")) == [202]


@pytest.mark.parametrize(
    ("fields", "trailers", "status"),
    [
        ([JSON], WITH_KEY, 401),
        ([JSON, b"X-API-Key: another\r\n"], WITH_KEY, 401),
        ([WITH_KEY], JSON, 415),
        ([WITH_KEY, JSON], b"Content-Encoding: gzip\r\n", 202),
        ([WITH_KEY, JSON], b"Content-Length: 3\r\n", 202),
        ([WITH_KEY, JSON], b"Transfer-Encoding: gzip\r\n", 202),
        ([WITH_KEY, JSON], b"X-Source: s\r\n", 202),  # as a header without X-Offset it is refused
        ([WITH_KEY, JSON], b"X-API-Key: another\r\n", 202),
    ],
)
def test_a_trailer_counts_for_nothing(service: Service, fields: list[bytes], trailers: bytes, status: int) -> None:
    assert statuses(service, chunked(*fields, trailers=trailers)) in ([status], [400])


def test_neither_a_host_nor_an_address_is_taken_from_a_trailer(without_keys: Service) -> None:
    def sent(number: int, host: bytes = b"localhost") -> list[int]:
        trailers = b"X-Forwarded-For: 192.0.2.%d\r\nHost: localhost\r\n" % number
        return statuses(without_keys, chunked(JSON, trailers=trailers).replace(b"localhost", host, 1))

    numbers = itertools.count()
    eventually(lambda: sent(next(numbers)) == [429])  # two within a second
    forwarded = b"X-Forwarded-For: 192.0.2.77\r\n"
    request = chunked(JSON, forwarded, trailers=b"Host: localhost\r\n").replace(b"localhost", b"evil.example", 1)
    assert statuses(without_keys, request) == [403]


@pytest.mark.parametrize(
    "request_",
    [
        HEAD + WITH_KEY + JSON + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\n{}\n",
        HEAD + WITH_KEY + JSON + b"Content-Length: 2, 2\r\n\r\n{}",
        HEAD + WITH_KEY + JSON + b"Content-Length: 2\r\n" + CHUNKED + b"\r\n" + CHUNKS + b"\r\n",
        HEAD + WITH_KEY + JSON + CHUNKED + CHUNKED + b"\r\n" + CHUNKS + b"\r\n",
        HEAD + WITH_KEY + JSON + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + CHUNKS + b"\r\n",
        HEAD + WITH_KEY + JSON + b"Transfer-Encoding: x\r\n chunked\r\n\r\n" + CHUNKS + b"\r\n",
        HEAD + WITH_KEY + JSON + b"Transfer-Encoding:\r\n\tchunked\r\n\r\n" + CHUNKS + b"\r\n",
        HEAD + WITH_KEY + JSON + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS + b"\r\n",
        HEAD + WITH_KEY + JSON + b"X: a\nContent-Length: 2\r\n\r\n{}" + SMUGGLED,
        HEAD + WITH_KEY + JSON + b"X: a\rContent-Length: 2\r\n\r\n{}" + SMUGGLED,
        HEAD + b"X: a\0b\r\nContent-Length: 2\r\n\r\n{}",
        HEAD + WITH_KEY[:-2] + b"\0\r\n" + JSON + b"Content-Length: 2\r\n\r\n{}",
        (HEAD + WITH_KEY + JSON + CHUNKED + b"\r\n").replace(b"\r\n", b"\n") + CHUNKS + b"\r\n",
        b"GET /recommend/u HTTP/1.1\r\nHost: localhost\r\nX: a\nX-API-Key: " + KEY.encode() + b"\r\n\r\n",
        b"GET /recommend/u HTTP/1.1\r\nHost: localhost\r\nX: a\r\n X-API-Key: " + KEY.encode() + b"\r\n\r\n",
        HEAD + WITH_KEY + b"Host: localhost\r\n" + JSON + b"Content-Length: 2\r\n\r\n{}",
        b"GET /recommend/u HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\n" + WITH_KEY + b"\r\n",
        b"GET /health/live HTTP/1.1\r\nHost:\r\nHOST: localhost\r\n\r\n",
        chunked(WITH_KEY, JSON).replace(CHUNKS, CHUNKS.replace(b"\r\n", b"\n", 1)),
        chunked(WITH_KEY, JSON).replace(CHUNKS, b"-" + CHUNKS),
        chunked(WITH_KEY, JSON).replace(CHUNKS, b"0x" + CHUNKS),
        chunked(WITH_KEY, JSON, trailers=b"X: a\n\n") + SMUGGLED,
        chunked(WITH_KEY, JSON, trailers=b" X: a\r\n") + SMUGGLED,
        chunked(WITH_KEY, JSON, trailers=b"X: a\r\n b\r\n") + SMUGGLED,
        chunked(WITH_KEY, JSON, trailers=b"X : a\r\n") + SMUGGLED,
        chunked(WITH_KEY, JSON, trailers=b"X: a\0b\r\n") + SMUGGLED,
        chunked(WITH_KEY, JSON, trailers=b"no field\r\n") + SMUGGLED,
    ],
)
def test_what_two_readers_could_divide_differently_is_refused(service: Service, request_: bytes) -> None:
    assert statuses(service, request_) in ([400], [408])
    stored = service.client.get("/users/u/ratings", headers={"X-API-Key": KEY})
    assert stored.status_code in (200, 404)  # it goes on
