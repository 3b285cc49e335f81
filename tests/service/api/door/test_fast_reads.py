"""The fast path of plain reads: it answers as the usual path does, and leaves to it whatever is unusual."""

from __future__ import annotations

import asyncio
import json
import time
import types
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from service.api.door.connection_guard import ConnectionGuard
from service.api.door.connection_table import ConnectionLimits, ConnectionTable
from service.api.door.fast_reads import FastGet, FastReads
from service.api.door.gateway import Gateway
from service.api.door.guarded_transport import note_answer
from service.api.door.http_protocol import HttpProtocol
from service.api.door.rate_limit import Limits
from service.api.routes.recommend import fast_get
from service.base.errors import Overloaded
from service.settings.settings import Settings
from service.telemetry.metrics import Metrics

KEY = "key-of-every-client"
IDLE_S = 0.2
LIMITS = ConnectionLimits(max_connections=8, idle_s=IDLE_S, sweep_s=0.02)
PLAIN = b"GET /hot/a%2Fb?n=3 HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def usual(scope: Any, receive: Any, send: Any) -> None:
    """What stands behind the door."""
    content = f"usual {scope['method']} {scope['path']}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(content))]})
    await send({"type": "http.response.body", "body": content})


class Server:
    """Answers a short request when `release` is called, or at once."""

    def __init__(self, **settings: Any) -> None:
        self.metrics, self.state = Metrics(), ServerState()
        self.door = Gateway(usual, Settings(**settings), self.metrics, {}, Limits.of(Settings(**settings)))
        self.config = uvicorn.Config(usual, log_config=None, access_log=False)
        self.config.load()
        self.holds = False
        self.slow: asyncio.Event | None = None  # until it is set, the usual path does not answer
        self.n_usual = 0
        self.held: list[tuple[asyncio.Future[str], str]] = []
        self.outcome: Exception | None = None
        self.reads = FastReads(self.door, FastGet(b"/hot/", "/hot/{id}", self.query, self.ask, self.finish))
        self.table = ConnectionTable(LIMITS, lambda address: address)

    def query(self, tail: bytes, text: bytes) -> str | None:
        return None if b"odd" in text else f"{tail.decode()} {text.decode()}"

    def ask(self, query: str) -> asyncio.Future[str]:
        if isinstance(self.outcome, RuntimeError):
            raise self.outcome
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.held.append((future, query))
        if not self.holds:
            self.release()
        return future

    def release(self) -> None:
        for future, query in self.held:
            if self.outcome is not None:
                future.set_exception(self.outcome)
            else:
                future.set_result(query)
        self.held.clear()

    def finish(self, answer: str, request_id: str, started: float) -> bytes:
        assert started > 0
        return json.dumps([answer, request_id]).encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The application, as in service.api.app."""
        self.n_usual += 1
        if self.slow is not None:
            await self.slow.wait()
        try:
            await self.door(scope, receive, send)
        finally:
            note_answer()

    def protocol(self) -> ConnectionGuard:
        refusal = self.door.raw_refusal
        protocol = HttpProtocol(refusal, config=self.config, server_state=self.state, app_state={})
        return ConnectionGuard(protocol, self.table, refusal, self.reads)

    def n_counted(self, status: int, route: str = "/hot/{id}") -> float:
        labels = {"method": "GET", "route": route, "status": str(status)}
        return self.metrics.registry.get_sample_value("nearfield_requests_total", labels) or 0.0


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


def talk(server: Server, scene: Talk) -> Any:
    async def main() -> Any:
        server.config.loaded_app = server
        listener = await asyncio.get_running_loop().create_server(server.protocol, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        try:
            return await asyncio.wait_for(scene(reader, writer), 60)
        finally:
            writer.close()
            listener.close()
            for connection in tuple(server.state.connections):
                connection.transport.abort()
            await until(lambda: not server.table.n_open)

    return asyncio.run(main())


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # `talk` ends it
        await asyncio.sleep(0.01)


async def response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], str]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(headers["content-length"]))
    return int(head[0].split()[1]), headers, body.decode()


def answered(server: Server, *messages: bytes) -> list[tuple[int, dict[str, str], str]]:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        found = []
        for message in messages:
            writer.write(message)
            found.append(await response(reader))
        return found

    return talk(server, scene)


def test_plain_requests_take_the_fast_path() -> None:
    server = Server()
    named = PLAIN.replace(b"\r\n\r\n", b"\r\nX-Request-ID: mine\r\n\r\n")
    first, second = answered(server, PLAIN, named)
    assert (first[0], first[1]["content-type"]) == (200, "application/json")
    sent = parsedate_to_datetime(first[1]["date"]).timestamp()
    assert 0 <= time.time() - sent < 60
    assert json.loads(first[2]) == ["a%2Fb n=3", first[1]["x-request-id"]]
    assert json.loads(second[2]) == ["a%2Fb n=3", "mine"]
    assert second[1]["x-request-id"] == "mine"
    assert server.n_counted(200) == 2


@pytest.mark.parametrize(
    "message",
    [
        PLAIN.replace(b"n=3", b"odd=1"),
        PLAIN.replace(b"GET", b"PUT"),
        PLAIN.replace(b"/hot/", b"/cold/"),
        PLAIN.replace(b"1.1", b"1.0"),
        PLAIN.replace(b"1.1", b"1.0").replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n"),
        PLAIN.replace(b"n=3", b"n=[3]"),
        PLAIN.replace(b"\r\n\r\n", b"\r\nX-Note: " + "\u00e9".encode("latin-1") + b"\r\n\r\n"),
        PLAIN.replace(b"\r\n\r\n", b"\r\nX-Note: a \r\n\r\n"),
        PLAIN.replace(b"\r\n\r\n", b"\r\nX-Note: " + b"a" * 2000 + b"\x80\r\n\r\n"),
        PLAIN.replace(b"\r\n\r\n", b"\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"),
        PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: keep-alive, x\r\n\r\n"),
        PLAIN.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"),
        PLAIN.replace(b"\r\n\r\n", b"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n") + b"{}",
        PLAIN.replace(b"\r\n\r\n", b"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        + b"0\r\n\r\n",
    ],
)
def test_whatever_is_unusual_takes_the_usual_way(message: bytes) -> None:
    server = Server()
    found = answered(server, message)[0]
    assert (found[0], found[2].split()[0]) == (200, "usual")
    assert not server.held
    assert server.n_counted(200) == 0


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"Host: localhost\r\n",
        b"X-Empty:\r\nX-Tab:\ta\tb\r\nconnection: Keep-Alive\r\n",
        b"X-Long: %b\r\n" % (b"a" * 3000),
    ],
)
def test_any_plain_header_takes_the_fast_path(fields: bytes) -> None:
    server = Server()
    found = answered(server, b"GET /hot/a HTTP/1.1\r\n" + fields + b"\r\n")[0]
    assert (found[0], json.loads(found[2])[0]) == (200, "a ")


def test_the_last_answer_before_a_close_says_so() -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        writer.write(PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n"))
        return await response(reader), await reader.read()

    server = Server()
    found, rest = talk(server, scene)
    assert (found[0], found[1]["connection"], rest, server.n_counted(200)) == (200, "close", b"", 1)


def test_requests_in_a_pipeline_are_answered_in_order() -> None:
    server = Server()
    server.holds = True

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        writer.write(PLAIN + PLAIN.replace(b"/hot/", b"/cold/") + PLAIN.replace(b"n=3", b"n=4"))
        await until(lambda: server.held)
        assert [query for _, query in server.held] == ["a%2Fb n=3"]
        server.holds = False
        server.release()
        return [(await response(reader))[2] for _ in range(3)]

    found = talk(server, scene)
    assert [json.loads(found[0])[0], found[1]] == ["a%2Fb n=3", "usual GET /cold/a%2Fb"]
    assert found[2] == "usual GET /hot/a%2Fb" or json.loads(found[2])[0] == "a%2Fb n=4"


def test_a_read_does_not_overtake_a_request_before_it() -> None:
    server = Server()

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        server.slow = asyncio.Event()
        writer.write(PLAIN.replace(b"/hot/", b"/cold/"))
        await until(lambda: server.n_usual)
        writer.write(PLAIN)
        await asyncio.sleep(0.05)
        server.slow.set()
        return [(await response(reader))[2] for _ in range(2)]

    assert talk(server, scene) == ["usual GET /cold/a%2Fb", "usual GET /hot/a%2Fb"]


@pytest.mark.parametrize("path", [b"/hot/", b"/cold/"])
def test_an_idle_connection_is_closed(path: bytes) -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        for _ in range(3):  # each request starts the time anew
            writer.write(PLAIN.replace(b"/hot/", path))
            await response(reader)
            await asyncio.sleep(0.6 * IDLE_S)
        began = time.monotonic()
        return await reader.read(), time.monotonic() - began

    rest, seconds = talk(Server(), scene)
    assert rest == b""
    assert seconds < 100 * IDLE_S  # a loaded machine


def test_a_connection_is_not_idle_while_its_request_is_answered() -> None:
    server = Server()
    server.holds = True

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        writer.write(PLAIN.replace(b"/hot/", b"/cold/"))
        await response(reader)
        writer.write(PLAIN)
        await asyncio.sleep(2 * IDLE_S)
        server.release()
        return await response(reader)

    assert talk(server, scene)[0] == 200


def test_the_key_is_checked() -> None:
    server = Server(api_key=KEY)
    allowed, refused = answered(
        server, PLAIN.replace(b"\r\n\r\n", b"\r\nX-API-Key: key-of-every-client\r\n\r\n"), PLAIN
    )
    assert (refused[0], refused[1]["content-type"]) == (401, "application/problem+json")
    assert refused[1]["www-authenticate"] == "X-API-Key"
    assert json.loads(refused[2])["request_id"] == refused[1]["x-request-id"]
    assert allowed[0] == 200


@pytest.mark.parametrize("given", ["key-of-those-who-read", "key-of-those-who-write", KEY, "another", None])
def test_both_paths_agree_on_keys(given: str | None) -> None:
    keys = {"api_key": KEY, "read_key": "key-of-those-who-read", "write_key": "key-of-those-who-write"}
    header = b"" if given is None else f"\r\nX-API-Key: {given}".encode()
    found = []
    for path in (b"n=3", b"odd=1"):  # the fast path, and the usual one
        message = PLAIN.replace(b"n=3", path).replace(b"\r\n\r\n", header + b"\r\n\r\n")
        status, headers, body = answered(Server(**keys), message)[0]
        told = {name: headers.get(name) for name in ("www-authenticate", "connection")}
        found.append((status, told, json.loads(body)["detail"] if status >= 400 else None))
    assert found[0] == found[1]
    assert found[0][0] == {KEY: 200, "key-of-those-who-read": 200, "key-of-those-who-write": 403}.get(given or "", 401)


def test_a_refusal_ends_the_connection() -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        writer.write(PLAIN + PLAIN)
        return await response(reader), await reader.read()

    refused, rest = talk(Server(api_key=KEY), scene)
    assert (refused[0], refused[1]["connection"], rest) == (401, "close", b"")


def test_the_rate_is_limited() -> None:
    found = answered(Server(rate_limit_per_s=1.0), PLAIN, PLAIN)
    assert [one[0] for one in found] == [200, 429]
    assert int(found[1][1]["retry-after"]) >= 1


@pytest.mark.parametrize(("outcome", "status"), [(Overloaded("too many"), 503), (ValueError("boom"), 500)])
def test_errors_are_problem_documents(outcome: Exception, status: int) -> None:
    server = Server()
    server.outcome = outcome
    found = answered(server, PLAIN, PLAIN)
    for code, headers, body in found:
        assert (code, headers["content-type"]) == (status, "application/problem+json")
        assert "boom" not in body
        assert ("retry-after" in headers) == (status == 503)
    assert server.n_counted(status) == 2


def test_an_error_while_asking_is_answered_too() -> None:
    server = Server()
    server.outcome = RuntimeError("boom")
    assert [one[0] for one in answered(server, PLAIN, PLAIN)] == [500, 500]


def test_a_client_that_has_gone_is_counted() -> None:
    server = Server()
    server.holds = True

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(PLAIN)
        await until(lambda: server.held)
        writer.transport.abort()
        await until(lambda: not server.state.connections)
        server.release()
        await until(lambda: server.n_counted(499))

    talk(server, scene)
    assert server.n_counted(499) == 1


def test_a_stop_lets_the_answer_out_and_closes_the_connection() -> None:
    server = Server()
    server.holds = True

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        writer.write(PLAIN)
        await until(lambda: server.held)
        for connection in server.state.connections:
            connection.shutdown()
        server.release()
        found = await response(reader)
        return found, await reader.read()

    found, rest = talk(server, scene)
    assert (found[0], found[1]["connection"], rest) == (200, "close", b"")


@pytest.mark.parametrize("value", [b"0", b"3", b"-1", b""])
def test_a_least_number_of_ratings_takes_the_usual_path(value: bytes) -> None:
    serving: Any = types.SimpleNamespace(settings=Settings())
    get = fast_get(serving)
    assert get.query(b"ann", b"n=3") is not None
    assert get.query(b"ann", b"n=3&wait_for=1-0").wait_for == (1, 0)
    assert get.query(b"ann", b"n=3&min_ratings=" + value) is None
