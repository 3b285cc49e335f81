"""Clients without a key that attack the service: its memory stays small, and it answers all other clients."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from service.telemetry.logs import BURST_LINES, LINES_PER_S
from tests.service.process import Service
from tests.service.waiting import eventually

MAX_CONNECTIONS = 400  # a quarter for each of four addresses
SPARE_BYTES = 50 << 20
SOON_S = 10.0  # on a busy machine; a healthy answer takes milliseconds
HEALTH = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
GUARDED = b"GET /popular HTTP/1.1\r\n\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("abuse") / "data"
    service = Service(
        data,
        max_connections=MAX_CONNECTIONS,
        worker=False,
        api_key="key-of-every-client",
        admin_key="key-of-the-admins",
    )
    yield service
    service.stop()


@pytest.fixture(autouse=True)
def bytes_before(service: Service) -> Iterator[int]:
    """Memory of the service before a test, which must leave it as small and as alive."""
    service.get("/openapi.json")  # made once and kept
    before = resident_bytes(service)
    yield before
    assert resident_bytes(service) < before + SPARE_BYTES
    assert seconds_of_health(service) < SOON_S


def resident_bytes(service: Service) -> int:
    return psutil.Process(service.process.pid).memory_info().rss


def address(service: Service) -> tuple[str, int]:
    return "127.0.0.1", service.client.base_url.port or 0


def seconds_of_health(service: Service) -> float:
    """Seconds until a new connection has an answer of /health/live."""
    started = time.monotonic()
    with socket.create_connection(address(service), timeout=60) as probe:
        probe.sendall(HEALTH)
        assert probe.recv(1 << 16).startswith(b"HTTP/1.1 200")
    return time.monotonic() - started


def received(connection: socket.socket) -> bytes:
    """Everything until the service closes."""
    data = b""
    with contextlib.suppress(OSError):
        while piece := connection.recv(1 << 16):
            data += piece
    return data


def flood(connection: socket.socket, data: bytes, n_bytes: int, seconds: float = 30.0) -> None:
    """Send `data` again and again until the service will have no more."""
    ends = time.monotonic() + seconds
    with contextlib.suppress(OSError):
        for _ in range(n_bytes // len(data)):
            connection.sendall(data)
            if time.monotonic() > ends:
                return


def while_flooding(service: Service, data: bytes, seconds: float) -> list[float]:
    """How long health took on other connections while one sends as much of `data` as it can, and reads what it gets."""
    with socket.create_connection(address(service), timeout=60) as connection:
        sending = threading.Thread(target=flood, args=(connection, data, 1 << 40, seconds))
        reading = threading.Thread(target=received, args=(connection,))
        sending.start()
        reading.start()
        times = []
        while sending.is_alive():
            times.append(seconds_of_health(service))
            time.sleep(0.05)
        connection.shutdown(socket.SHUT_RDWR)
        reading.join()
    return times


def test_pipelined_refusals_end_the_connection_and_fill_no_log(service: Service) -> None:
    n_lines = len(service.errors.read_text().splitlines())
    started = time.monotonic()
    for _ in range(20):
        with socket.create_connection(address(service), timeout=60) as connection:
            flood(connection, 1000 * GUARDED, 1 << 20)
            assert received(connection).count(b"HTTP/1.1 401") <= 1
    for _ in range(300):
        assert service.get("/popular").status_code == 401
    n_new = len(service.errors.read_text().splitlines()) - n_lines
    assert 0 < n_new <= BURST_LINES + LINES_PER_S * (time.monotonic() - started + 1)


def test_a_pipeline_takes_neither_memory_nor_anybodys_turn(service: Service) -> None:
    times = while_flooding(service, 1000 * HEALTH, 1.5)
    assert len(times) > 2
    assert max(times) < SOON_S


@pytest.mark.parametrize(
    ("start", "status"),
    [(b"GET / HTTP/1.1\r\n", b"431"), (b"GET /recommend/", b"414"), (b"POST /ratings HTTP/1.1\r\n", b"431")],
)
def test_a_head_without_end_is_refused(service: Service, start: bytes, status: bytes) -> None:
    with socket.create_connection(address(service), timeout=60) as connection:
        connection.sendall(start)
        flood(connection, b"x" * 1000 if status == b"414" else b"x: yyyyyyyy\r\n" * 100, 40_000)
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"content-type: application/problem+json" in answer
    assert b"x-request-id: " in answer


def test_a_hundred_megabytes_of_headers_are_not_read(service: Service) -> None:
    with socket.create_connection(address(service), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        flood(connection, b"x: yyyyyyyy\r\n" * 1000, 100 << 20)


def test_clients_that_ask_for_much_and_do_not_read_get_little(service: Service, bytes_before: int) -> None:
    message = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    lazy = [socket.create_connection(address(service), timeout=60) for _ in range(90)]
    for connection in lazy:
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            connection.send(4000 * message)
    for _ in range(10):
        assert seconds_of_health(service) < SOON_S
        assert resident_bytes(service) < bytes_before + SPARE_BYTES
        time.sleep(0.1)
    for connection in lazy:
        connection.close()


def test_half_requests_do_not_lock_out_others(service: Service) -> None:
    """Health is answered although every connection is taken; the others are free again when a deadline has passed."""
    half = []
    for number in range(MAX_CONNECTIONS + 100):
        source = (f"127.0.0.{1 + number % 4}", 0)
        half.append(socket.create_connection(address(service), timeout=60, source_address=source))
        half[-1].sendall(b"GET /health/live HTTP/1.1\r\nHo")
    assert max(seconds_of_health(service) for _ in range(20)) < SOON_S
    with socket.create_connection(address(service), timeout=60) as other:
        other.sendall(GUARDED)
        assert received(other).startswith(b"HTTP/1.1 503")

    def is_let_in() -> bool:
        with socket.create_connection(address(service), timeout=60) as other:
            other.sendall(GUARDED)
            return other.recv(12) == b"HTTP/1.1 401"

    eventually(is_let_in)
    assert received(half[0]).startswith(b"HTTP/1.1 408")
    for connection in half:
        connection.close()
