"""A guard before a protocol of a few lines, over real sockets, on both event loops: nothing in it is uvicorn's."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import uvloop

from service.api.door.connection_guard import ConnectionGuard
from service.api.door.connection_table import ConnectionLimits, ConnectionTable
from service.base.errors import ServiceError

GET = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEALTH = GET.replace(b"/a", b"/health/live")
POST = b"POST /a HTTP/1.1\r\nContent-Length: 10\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SHORT_S, LONG_S = 0.05, 60.0
LIMITS = ConnectionLimits(max_connections=8, url_bytes=100, head_bytes=200, linger_s=SHORT_S, sweep_s=0.01)


class Server(asyncio.Protocol):
    """Records requests and their times; answers at once, or when the test calls for it."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.turns: list[int] = []
        self.answers, self.pauses = True, False
        self.transport: Any = None
        self.n_lost = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        self.turns.append(Setting.turn)
        if self.pauses:
            self.transport.pause_reading()
        if self.answers:
            self.transport.write(ANSWER)
            if b"Connection: close" in data:
                self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.n_lost += 1


class Setting:
    """A listener with guarded connections."""

    turn = 0

    def __init__(self, limits: ConnectionLimits = LIMITS) -> None:
        self.table = ConnectionTable(limits, lambda address: address)
        self.servers: list[Server] = []
        self.refusals: list[ServiceError] = []
        self.answers, self.pauses = True, False

    def protocol(self) -> ConnectionGuard:
        server = Server()
        server.answers, server.pauses = self.answers, self.pauses
        self.servers.append(server)
        return ConnectionGuard(server, self.table, self.refusal)

    def refusal(self, error: ServiceError) -> bytes:
        self.refusals.append(error)
        return b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % error.status

    @property
    def server(self) -> Server:
        return self.servers[0]


Scene = Callable[["Client"], Awaitable[Any]]


class Client:
    """Opens connections to a setting."""

    def __init__(self, setting: Setting, address: tuple[str, int]) -> None:
        self.setting, self._address = setting, address
        self._writers: list[asyncio.StreamWriter] = []

    async def open(self, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self._address)
        self._writers.append(writer)
        writer.write(data)
        return reader, writer

    async def answered(self, data: bytes) -> bytes:
        """Everything that comes back until the server closes."""
        return await rest((await self.open(data))[0])

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        for server in self.setting.servers:
            if not server.n_lost:
                server.transport.abort()
        await until(lambda: not self.setting.table.n_open)


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection is closed, cut off or not."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # `play` ends it
        await asyncio.sleep(0.002)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Callable[[Setting, Scene], Any]:
    def run(setting: Setting, scene: Scene) -> Any:
        async def main() -> Any:
            listener = await asyncio.get_running_loop().create_server(setting.protocol, "127.0.0.1", 0)
            client = Client(setting, listener.sockets[0].getsockname())
            try:
                return await asyncio.wait_for(scene(client), 60)
            finally:
                await asyncio.wait_for(client.close(), 60)
                listener.close()

        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(main())

    return run


def test_requests_are_handed_on_as_they_come(play: Any) -> None:
    setting = Setting()

    async def scene(client: Client) -> None:
        reader, writer = await client.open()
        for request in (GET, GET, POST + b"0123456789", GET):
            writer.write(request)
            assert await reader.readexactly(len(ANSWER)) == ANSWER

    play(setting, scene)
    assert setting.server.pieces == [GET, GET, POST + b"0123456789", GET]
    assert setting.server.n_lost == 1


def test_a_pipeline_is_handed_on_one_request_a_turn(play: Any) -> None:
    setting = Setting()

    async def count_turns() -> None:
        while True:
            Setting.turn += 1
            await asyncio.sleep(0)

    async def scene(client: Client) -> None:
        counting = asyncio.create_task(count_turns())
        reader, _ = await client.open(5 * GET)
        await reader.readexactly(5 * len(ANSWER))
        counting.cancel()

    play(setting, scene)
    assert setting.server.pieces == 5 * [GET]
    assert len(set(setting.server.turns)) == 5


def test_a_pipeline_waits_while_the_server_pauses_and_is_read_no_further(play: Any) -> None:
    setting = Setting()
    setting.answers, setting.pauses = False, True

    async def scene(client: Client) -> int:
        _, writer = await client.open(GET)
        await until(lambda: setting.servers and setting.server.pieces)
        for _ in range(100):
            writer.write(1000 * GET)
        await asyncio.sleep(SHORT_S)
        assert setting.server.pieces == [GET]
        assert setting.table.n_held_bytes == 0  # nothing was read at all
        setting.server.transport.resume_reading()
        await until(lambda: len(setting.server.pieces) == 2)
        await until(lambda: setting.table.n_held_bytes > LIMITS.head_bytes)
        return setting.table.n_held_bytes

    assert play(setting, scene) <= LIMITS.head_bytes + (256 << 10)
    assert setting.table.n_held_bytes == 0


def test_all_connections_together_hold_no_more_than_allowed(play: Any) -> None:
    setting = Setting(ConnectionLimits(max_connections=8, all_held_bytes=1000))
    setting.answers, setting.pauses = False, True
    half = GET[:-2].ljust(600, b"x")

    async def scene(client: Client) -> None:
        await client.open(half)
        await until(lambda: setting.table.n_held_bytes == 600)
        assert await client.answered(half) == b""

    play(setting, scene)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"x" * 100, 414),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 40, 431),
        (POST.replace(b"10", b"10\r\nContent-Length: 10"), 400),
        (b"\x16\x03\x01", 400),
        (POST.replace(b"Content-Length: 10", b"Transfer-Encoding: chunked") + b"no\r\n", 400),
    ],
)
def test_requests_that_cannot_be_passed_on_are_refused_and_the_connection_closed(
    play: Any, data: bytes, status: int
) -> None:
    setting = Setting()
    setting.answers = False

    async def scene(client: Client) -> bytes:
        return await client.answered(data + 1000 * GET)

    assert play(setting, scene).startswith(b"HTTP/1.1 %d" % status)
    assert len(setting.refusals) == 1
    assert setting.server.n_lost == 1


@pytest.mark.parametrize(
    ("data", "limits", "status"),
    [
        (b"", {"head_s": SHORT_S}, None),
        (b"GET / HTTP/1.1\r\n", {"head_s": SHORT_S}, 408),
        (POST + b"half", {"body_s": SHORT_S}, 408),
    ],
)
def test_a_request_that_does_not_end_is_given_up(play: Any, data: bytes, limits: Any, status: int | None) -> None:
    setting = Setting(ConnectionLimits(max_connections=8, sweep_s=0.01, linger_s=SHORT_S, **limits))
    setting.answers = False

    async def scene(client: Client) -> bytes:
        return await client.answered(data)

    answer = play(setting, scene)
    assert answer.startswith(b"HTTP/1.1 %d" % status) if status else answer == b""
    assert setting.server.n_lost == 1


def test_the_deadline_of_a_head_counts_from_its_first_byte(play: Any) -> None:
    """An idle connection is the server's to close; bytes that trickle in gain no time."""
    setting = Setting(ConnectionLimits(max_connections=8, sweep_s=0.01, head_s=0.6))

    async def scene(client: Client) -> tuple[float, bytes]:
        reader, writer = await client.open(GET)
        await reader.readexactly(len(ANSWER))
        await asyncio.sleep(0.8)
        started = time.monotonic()
        for byte in GET[:20]:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.03)
        return time.monotonic() - started, await reader.read()

    took_s, answer = play(setting, scene)
    assert answer.startswith(b"HTTP/1.1 408")
    assert took_s >= 0.6


def test_a_body_that_was_answered_already_is_cut_off(play: Any) -> None:
    setting = Setting(ConnectionLimits(max_connections=8, sweep_s=0.01, body_s=SHORT_S))

    async def scene(client: Client) -> bytes:
        reader, _ = await client.open(POST)
        assert await reader.readexactly(len(ANSWER)) == ANSWER
        return await rest(reader)

    assert play(setting, scene) == b""
    assert not setting.refusals


def test_no_deadline_runs_while_the_server_pauses(play: Any) -> None:
    setting = Setting(ConnectionLimits(max_connections=8, sweep_s=0.01, body_s=0.1))
    setting.answers, setting.pauses = False, True

    async def scene(client: Client) -> bytes:
        reader, writer = await client.open(POST)
        await asyncio.sleep(0.3)
        writer.write(b"0123456789")
        await asyncio.sleep(0.3)
        setting.server.transport.resume_reading()
        await until(lambda: b"".join(setting.server.pieces) == POST + b"0123456789")
        setting.server.transport.write(ANSWER)
        return await reader.readexactly(len(ANSWER))

    assert play(setting, scene) == ANSWER


def quiet_socket(address: tuple[str, int]) -> socket.socket:
    """A client that takes next to nothing before it reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(address)
    client.setblocking(False)
    return client


@pytest.mark.parametrize("closes", [True, False])
def test_a_client_that_does_not_read_is_cut_off(play: Any, closes: bool) -> None:
    setting = Setting(ConnectionLimits(max_connections=8, sweep_s=0.01, send_s=0.2))
    setting.answers = False

    async def scene(client: Client) -> float:
        with quiet_socket(client._address) as sock:
            sock.send(GET)
            await until(lambda: setting.servers and setting.server.pieces)
            setting.server.transport.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (32 << 20))
            if closes:
                setting.server.transport.close()
            started = time.monotonic()
            await until(lambda: setting.server.n_lost)
            return time.monotonic() - started

    assert 0.15 <= play(setting, scene) < 60


def test_a_client_that_reads_slowly_gets_everything(play: Any) -> None:
    setting = Setting(ConnectionLimits(max_connections=8, sweep_s=0.01, send_s=1.0))
    setting.answers = False
    n_bytes = 16 << 20

    async def scene(client: Client) -> int:
        reader, _ = await client.open(GET)
        await until(lambda: setting.servers and setting.server.pieces)
        setting.server.transport.write(b"x" * n_bytes)
        setting.server.transport.close()
        n_read = 0
        while data := await reader.read(256 << 10):  # 6 MB/s: more than two seconds
            n_read += len(data)
            await asyncio.sleep(0.04)
        return n_read

    assert play(setting, scene) == n_bytes


def test_nothing_more_is_handed_on_to_a_server_whose_client_does_not_read(play: Any) -> None:
    setting = Setting(ConnectionLimits(max_connections=8))
    setting.answers = False

    async def scene(client: Client) -> None:
        with quiet_socket(client._address) as sock:
            sock.send(GET)
            await until(lambda: setting.servers and setting.server.pieces)
            setting.server.transport.write(b"x" * (32 << 20))
            sock.send(20 * GET)
            await asyncio.sleep(SHORT_S)
            assert setting.server.pieces == [GET]

    play(setting, scene)


def test_a_connection_too_many_may_ask_for_health_once(play: Any) -> None:
    setting = Setting()  # 8 connections, 2 from one address

    async def scene(client: Client) -> tuple[bytes, ...]:
        for _ in range(2):
            await client.open(b"GET / HT")
        await until(lambda: len(setting.servers) == 2)
        health = await client.answered(2 * HEALTH)
        other = await client.answered(GET)
        assert setting.table.n_open == 2
        return health, other

    health, other = play(setting, scene)
    assert health == ANSWER
    assert other.startswith(b"HTTP/1.1 503")


def test_among_half_requests_for_health_the_oldest_makes_room(play: Any) -> None:
    setting = Setting(ConnectionLimits(max_connections=1, health_connections=3, linger_s=SHORT_S, sweep_s=0.01))

    async def scene(client: Client) -> bytes:
        await client.open(GET[:9])
        first, _ = await client.open(HEALTH[:9])
        for _ in range(2):
            await client.open(HEALTH[:9])
        await until(lambda: len(setting.servers) == 4)
        assert await client.answered(HEALTH) == ANSWER
        return await first.read()

    assert play(setting, scene).startswith(b"HTTP/1.1 503")


def test_a_refused_client_that_goes_on_sending_is_cut_off(play: Any) -> None:
    limits = ConnectionLimits(max_connections=8, head_bytes=200, linger_bytes=1 << 20, linger_s=LONG_S)
    setting = Setting(limits)

    async def scene(client: Client) -> None:
        _, writer = await client.open()
        with pytest.raises(OSError):
            while True:
                writer.write(b"x" * 100_000)
                await writer.drain()

    play(setting, scene)


def test_beyond_the_most_that_linger_connections_are_closed_at_once(play: Any) -> None:
    setting = Setting(ConnectionLimits(max_connections=8, max_lingering=0, linger_s=LONG_S))

    async def scene(client: Client) -> bytes:
        return await client.answered(b"\x16")

    assert play(setting, scene).startswith(b"HTTP/1.1 400")


def test_blank_lines_are_not_handed_on(play: Any) -> None:
    """The server would take them for a request that begins, and stop to count the time that nothing comes."""
    setting = Setting()

    async def scene(client: Client) -> None:
        reader, writer = await client.open(GET)
        await reader.readexactly(len(ANSWER))
        for blank in (b"\r\n\r\n", b"\n\r\n\r\n", b"\r\n"):
            writer.write(blank)
            await asyncio.sleep(SHORT_S)
        writer.write(GET)
        await reader.readexactly(len(ANSWER))

    play(setting, scene)
    assert setting.server.pieces == [GET, GET]


def test_writes_after_the_end_are_dropped(play: Any) -> None:
    setting = Setting(ConnectionLimits(max_connections=8, sweep_s=0.01, body_s=SHORT_S, linger_s=SHORT_S))
    setting.answers = False

    async def scene(client: Client) -> bytes:
        reader, _ = await client.open(POST)
        await until(lambda: setting.refusals)
        assert setting.server.transport.is_closing()
        setting.server.transport.write(ANSWER)
        return await reader.read()

    assert b"200 OK" not in play(setting, scene)


def test_a_client_may_leave_only_so_much_unread(play: Any) -> None:
    setting = Setting(ConnectionLimits(max_connections=40, unsent_bytes=40 << 20))
    setting.answers = False

    def heard_by(n: int) -> bool:
        return len(setting.servers) > n and bool(setting.servers[n].pieces)

    async def scene(client: Client) -> tuple[int, int]:
        socks = []
        for n in range(6):
            sock = quiet_socket(client._address)
            socks.append(sock)
            sock.send(GET)
            await until(partial(heard_by, n))
            setting.servers[n].transport.write(b"x" * (12 << 20))
            await asyncio.sleep(0.05)
        lost = sum(server.n_lost for server in setting.servers)
        held = sum(s.transport.get_write_buffer_size() for s in setting.servers if not s.n_lost)
        for sock in socks:
            sock.close()
        return lost, held

    lost, held = play(setting, scene)
    assert lost > 0
    assert held <= 40 << 20
