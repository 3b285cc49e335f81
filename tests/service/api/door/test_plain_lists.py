"""Plain lists: answered as by the usual way, those of one turn together, and whatever is unusual is left to it."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from service.api.door import plain_lists
from service.api.door.connection_guard import ConnectionGuard, current
from service.api.door.connection_table import ConnectionLimits, ConnectionTable
from service.api.door.gateway import Gateway
from service.api.door.http_protocol import HttpProtocol
from service.api.door.plain_lists import MOST, PlainLists
from service.api.door.rate_limit import Limits
from service.api.door.route import RouteTable
from service.api.routes.recommend import plain_page
from service.base.errors import Overloaded
from service.engine.fairness import MAX_COST, Portion
from service.engine.queries import Recommend
from service.engine.queries.columns import Ids
from service.settings.settings import Settings
from service.telemetry.metrics import Metrics
from tests.loadtest import virtual_time

KEY = "key-of-every-client"
IDLE_S = 0.2
LIMITS = ConnectionLimits(max_connections=400, idle_s=IDLE_S, sweep_s=0.02)
PLAIN = b"GET /recommend/ann?n=3 HTTP/1.1\r\nHost: localhost\r\n\r\n"


def users_of(query: Recommend) -> list[str]:
    assert isinstance(query.users, Ids)
    return [user.decode() for user in query.users.parts()]


class Server:
    """Answers a plain list when `release` is called, or at once, with the ids and the page that were asked for."""

    def __init__(self, **settings: Any) -> None:
        self.metrics, self.state, self.settings = Metrics(), ServerState(), Settings(**settings)
        self.gateway = Gateway(RouteTable(), self.settings, self.metrics, Limits.of(self.settings))
        self.config = uvicorn.Config(self, log_config=None, access_log=False)
        self.config.load()
        self.holds = False
        self.slow: asyncio.Event | None = None  # until it is set, the usual way does not answer
        self.n_usual = 0
        self.held: list[tuple[asyncio.Future[list[bytes]], Recommend]] = []
        self.asked: list[Recommend] = []
        self.portions: list[Sequence[Portion]] = []
        self.outcome: Exception | None = None
        self.poison = ""  # the user whose list fails
        serving: Any = self
        self.lists = PlainLists(self.gateway, plain_page(serving), serving)
        self.table = ConnectionTable(LIMITS, lambda address: address)

    def answer_lists(self, query: Recommend, portions: Sequence[Portion]) -> asyncio.Future[list[bytes]]:
        if isinstance(self.outcome, RuntimeError):
            raise self.outcome
        future: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self.asked.append(query)
        self.portions.append(portions)
        self.held.append((future, query))
        if not self.holds:
            self.release()
        return future

    def release(self) -> None:
        for future, query in self.held:
            users = users_of(query)
            if self.outcome is not None:
                future.set_exception(self.outcome)
            elif self.poison in users:
                future.set_exception(ValueError("boom"))
            else:
                future.set_result([json.dumps({"user": user, "n": query.n}).encode() for user in users])
        self.held.clear()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Stands for the usual way."""
        self.n_usual += 1
        if self.slow is not None:
            await self.slow.wait()
        content = f"usual {scope['method']} {scope['path']}".encode()
        headers = [(b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})
        connection = current.get()
        assert connection is not None
        connection.note_answer()

    def protocol(self) -> ConnectionGuard:
        refusal = self.gateway.raw_refusal
        protocol = HttpProtocol(refusal, config=self.config, server_state=self.state, app_state={})
        return ConnectionGuard(protocol, self.table, refusal, self.lists.begin)

    def n_counted(self, status: int) -> float:
        labels = {"method": "GET", "route": "/recommend/{user}", "status": str(status)}
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

    return virtual_time.run(main())  # connections are idle for as long as the test says


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


def test_plain_requests_are_answered_here() -> None:
    server = Server()
    named = PLAIN.replace(b"\r\n\r\n", b"\r\nX-Request-ID: mine\r\n\r\n")
    first, second = answered(server, PLAIN, named)
    assert (first[0], first[1]["content-type"]) == (200, "application/json")
    sent = parsedate_to_datetime(first[1]["date"]).timestamp()
    assert 0 <= time.time() - sent < 60
    answer = json.loads(first[2])
    assert answer.pop("took_ms") >= 0
    assert answer == {"user": "ann", "n": 3, "request_id": first[1]["x-request-id"]}
    assert json.loads(second[2])["request_id"] == second[1]["x-request-id"] == "mine"
    assert (server.n_usual, server.n_counted(200)) == (0, 2)


def test_requests_of_one_turn_become_one_query() -> None:
    server = Server()
    ids = [f"user-{n}" for n in range(MOST + 6)]

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        host, port = writer.get_extra_info("peername")
        pairs = [await asyncio.open_connection(host, port) for _ in ids]
        time.sleep(0.05)  # all requests arrive while the server does something else
        for user, (_, out) in zip(ids, pairs, strict=True):
            out.write(PLAIN.replace(b"ann", user.encode()))
        time.sleep(0.05)
        found = [json.loads((await response(into))[2]) for into, _ in pairs]
        for _, out in pairs:
            out.close()
        return found

    found = talk(server, scene)
    assert [one["user"] for one in found] == ids  # each connection got its own list
    assert len({one["request_id"] for one in found}) == len(ids)
    assert sum(len(users_of(query)) for query in server.asked) == len(ids)
    assert max(len(users_of(query)) for query in server.asked) > 1
    assert max(len(users_of(query)) for query in server.asked) <= MOST


def test_clients_share_a_query_and_pages_do_not() -> None:
    server = Server(api_key=KEY, read_key="key-of-those-who-read")
    server.holds = True
    one, other = KEY.encode(), b"key-of-those-who-read"
    wanted = [(b"ann", b"3", one), (b"bob", b"3", one), (b"ann", b"4", one), (b"cid", b"3", other)]

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        for user, n, key in wanted:
            guard = server.protocol()
            guard.peer = ("127.0.0.1", 1)
            guard.end_read = lambda response, *, closes: True  # type: ignore[method-assign]
            text = b"GET /recommend/%b?n=%b HTTP/1.1\r\nX-API-Key: %b\r\n\r\n" % (user, n, key)
            assert server.lists.begin(guard, text)
        await until(lambda: len(server.asked) == 2)
        server.release()

    talk(server, scene)
    assert [(users_of(query), query.n) for query in server.asked] == [(["ann", "bob", "cid"], 3), (["ann"], 4)]
    assert [[n for _, n in portions] for portions in server.portions] == [[2, 1], [1]]
    assert len({client for portions in server.portions for client, _ in portions}) == 2


@pytest.mark.parametrize("fails", ["one client", "all"])
def test_clients_of_a_query_that_fails_are_asked_for_alone(fails: str) -> None:
    server = Server(api_key=KEY, read_key="key-of-those-who-read")
    server.poison = "bob"
    answers: list[bytes] = []

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        for user, key in ((b"ann", KEY.encode()), (b"bob", b"key-of-those-who-read"), (b"cid", KEY.encode())):
            guard = server.protocol()
            guard.peer = ("127.0.0.1", 1)
            guard.end_read = lambda response, *, closes: not answers.append(response)  # type: ignore[method-assign,func-returns-value]
            assert server.lists.begin(guard, b"GET /recommend/%b?n=3 HTTP/1.1\r\nX-API-Key: %b\r\n\r\n" % (user, key))
        if fails == "all":
            server.outcome = Overloaded("enough")
        await until(lambda: len(answers) == 3)

    talk(server, scene)
    asked = [["ann", "cid", "bob"], ["ann", "cid"], ["bob"]]
    assert list(map(users_of, server.asked)) == asked
    statuses = sorted(answer.split()[1] for answer in answers)
    assert statuses == ([b"503"] * 3 if fails == "all" else [b"200", b"200", b"500"])
    assert not server.lists._lines


def test_long_lists_are_not_asked_for_together() -> None:
    """A batch that costs too much would keep other clients waiting."""
    server = Server(max_n=1000)
    server.holds = True

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        for _ in range(9):
            guard = server.protocol()
            guard.end_read = lambda response, *, closes: True  # type: ignore[method-assign]
            assert server.lists.begin(guard, PLAIN.replace(b"n=3", b"n=1000"))
        await until(lambda: len(server.held) == 3)
        server.release()

    talk(server, scene)
    assert max(len(users_of(query)) * query.n for query in server.asked) <= MAX_COST
    assert len(server.asked) == 3


class Reads:
    """Reads of a server without sockets: `statuses` has the status of each user who has an answer."""

    def __init__(self, server: Server) -> None:
        self.server, self.statuses = server, dict[str, int]()

    async def begin(self, *users: str, n: int = 3, key: str = KEY) -> None:
        """Read for these users in one turn of the event loop, which ends on return."""
        for user in users:
            guard = self.server.protocol()
            guard.peer = ("127.0.0.1", 1)

            def note(response: bytes, *, closes: bool, user: str = user) -> bool:
                self.statuses[user] = int(response.split()[1])
                return True

            guard.end_read = note  # type: ignore[method-assign]
            text = f"GET /recommend/{user}?n={n} HTTP/1.1\r\nX-API-Key: {key}\r\n\r\n"
            assert self.server.lists.begin(guard, text.encode())
        await asyncio.sleep(0)

    def asked(self) -> list[list[str]]:
        """The users of each query so far."""
        return [users_of(query) for query in self.server.asked]


def held(scene: Callable[[Server, Reads], Awaitable[None]], **settings: Any) -> None:
    """Run `scene` with a server that answers when it is released, and has two queries of a client at once."""
    server = Server(**settings)
    server.holds = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_lists, "AT_ONCE", 2)
        asyncio.run(asyncio.wait_for(scene(server, Reads(server)), 60))


def test_what_arrives_while_the_engine_has_two_queries_goes_together() -> None:
    async def scene(server: Server, reads: Reads) -> None:
        for user in "abcde":
            await reads.begin(user)
        assert reads.asked() == [["a"], ["b"]]
        await reads.begin("f", n=4)
        await reads.begin("g")
        server.release()
        await until(lambda: len(server.asked) == 4)
        assert reads.asked()[2:] == [["c", "d", "e", "g"], ["f"]]
        server.release()
        await until(lambda: len(reads.statuses) == 7)
        assert set(reads.statuses.values()) == {200}

    held(scene)


def test_a_client_with_two_queries_keeps_no_other_one_waiting() -> None:
    async def scene(server: Server, reads: Reads) -> None:
        for user in "abc":
            await reads.begin(user)
        await reads.begin("d", key="key-of-those-who-read")
        assert reads.asked() == [["a"], ["b"], ["d"]]
        for _ in range(2):
            await until(lambda: server.held)
            server.release()
        await until(lambda: len(reads.statuses) == 4)

    held(scene, api_key=KEY, read_key="key-of-those-who-read")


def test_a_full_batch_is_followed_by_another_one() -> None:
    async def scene(server: Server, reads: Reads) -> None:
        await reads.begin(*[f"u{n}" for n in range(2 * MOST + 3)])
        assert [len(users) for users in reads.asked()] == [MOST, MOST]
        await reads.begin("late")
        server.release()
        await until(lambda: len(server.asked) == 3)
        assert reads.asked()[2] == [f"u{2 * MOST}", f"u{2 * MOST + 1}", f"u{2 * MOST + 2}", "late"]
        server.release()
        await until(lambda: len(reads.statuses) == 2 * MOST + 4)

    held(scene)


def test_too_many_reads_are_refused_without_the_engine() -> None:
    async def scene(server: Server, reads: Reads) -> None:
        await reads.begin(*"abcd")
        await reads.begin("e")
        assert reads.statuses == {}
        await reads.begin("f")
        assert reads.statuses == {"f": 503}
        await reads.begin("g", key="key-of-those-who-read")  # another client has its own line
        assert reads.statuses == {"f": 503}
        for _ in range(2):
            server.release()
            await asyncio.sleep(0.01)
        await reads.begin("h")
        await until(lambda: server.held)
        server.release()
        await until(lambda: "h" in reads.statuses)
        assert reads.statuses == dict.fromkeys("abcdegh", 200) | {"f": 503}

    held(scene, api_key=KEY, read_key="key-of-those-who-read", max_waiting=5)


def test_reads_that_wait_for_too_long_are_refused_and_others_go_on() -> None:
    async def scene(server: Server, reads: Reads) -> None:
        for user in "abc":
            await reads.begin(user)
        await asyncio.sleep(0.3)
        await reads.begin("d", n=4)
        server.release()
        await until(lambda: "c" in reads.statuses)
        await until(lambda: server.held)
        server.release()
        await until(lambda: len(reads.statuses) == 4)
        assert reads.statuses == {"a": 200, "b": 200, "c": 503, "d": 200}

    held(scene, max_wait_ms=200)


def test_what_waits_goes_on_after_queries_that_fail() -> None:
    async def scene(server: Server, reads: Reads) -> None:
        for user in "abc":
            await reads.begin(user)
        server.outcome = RuntimeError("boom")  # of the two, and while the third one is asked for
        server.release()
        await until(lambda: len(reads.statuses) == 3)
        assert set(reads.statuses.values()) == {500}
        server.outcome = None
        await reads.begin("d")
        await until(lambda: server.held)
        server.release()
        await until(lambda: "d" in reads.statuses)
        assert reads.statuses["d"] == 200

    held(scene)


def test_one_list_that_fails_does_not_keep_the_others_from_theirs() -> None:
    server = Server()
    server.poison = "bob"
    statuses: dict[str, bytes] = {}

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        for user in ("ann", "bob", "cid"):
            guard = server.protocol()

            def note(response: bytes, *, closes: bool, user: str = user) -> bool:
                statuses[user] = response.split()[1]
                return True

            guard.end_read = note  # type: ignore[method-assign]
            assert server.lists.begin(guard, PLAIN.replace(b"ann", user.encode()))
        await until(lambda: len(statuses) == 3)

    talk(server, scene)
    assert statuses == {"ann": b"200", "bob": b"500", "cid": b"200"}


@pytest.mark.parametrize(
    "message",
    [
        PLAIN.replace(b"n=3", b"n=0"),
        PLAIN.replace(b"n=3", b"n=3&min_ratings=0"),
        PLAIN.replace(b"n=3", b"wait_for=1-0"),
        PLAIN.replace(b"n=3", b"tag.genre=a"),
        PLAIN.replace(b"n=3", b"scenario=a"),
        PLAIN.replace(b"n=3", b"cursor="),
        PLAIN.replace(b"n=3", b"n=3&odd=1"),
        PLAIN.replace(b"n=3", b"n=3&" + b"n=3&" * 100 + b"n=3"),
        PLAIN.replace(b"ann", b"a%2Fb"),
        PLAIN.replace(b"ann", b"a/b"),
        PLAIN.replace(b"ann", b""),
        PLAIN.replace(b"ann", b"a" * 257),
        PLAIN.replace(b"GET", b"PUT"),
        PLAIN.replace(b"/recommend/", b"/cold/"),
        PLAIN.replace(b"/recommend/", b"/d/shop/recommend/"),
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
    assert found[0] == 200
    assert (server.n_usual, server.asked, server.n_counted(200)) == (1, [], 0)


def test_head_takes_the_usual_way() -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        writer.write(PLAIN.replace(b"GET", b"HEAD"))
        return await reader.readuntil(b"\r\n\r\n")

    server = Server()
    assert talk(server, scene).startswith(b"HTTP/1.1 200 OK")
    assert (server.n_usual, server.asked) == (1, [])


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"Host: localhost\r\n",
        b"X-Empty:\r\nX-Tab:\ta\tb\r\nconnection: Keep-Alive\r\n",
        b"X-Long: %b\r\n" % (b"a" * 3000),
    ],
)
def test_any_plain_header_is_plain(fields: bytes) -> None:
    server = Server()
    found = answered(server, b"GET /recommend/a HTTP/1.1\r\n" + fields + b"\r\n")[0]
    assert (found[0], json.loads(found[2])["user"]) == (200, "a")


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
        writer.write(PLAIN + PLAIN.replace(b"/recommend/", b"/cold/") + PLAIN.replace(b"n=3", b"n=4"))
        await until(lambda: server.held)
        assert [users_of(query) for _, query in server.held] == [["ann"]]
        server.holds = False
        server.release()
        return [(await response(reader))[2] for _ in range(3)]

    found = talk(server, scene)
    assert (json.loads(found[0])["n"], found[1]) == (3, "usual GET /cold/ann")
    assert found[2] == "usual GET /recommend/ann" or json.loads(found[2])["n"] == 4


def test_a_read_does_not_overtake_a_request_before_it() -> None:
    server = Server()

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        server.slow = asyncio.Event()
        writer.write(PLAIN.replace(b"/recommend/", b"/cold/"))
        await until(lambda: server.n_usual)
        writer.write(PLAIN)
        await asyncio.sleep(0.05)
        server.slow.set()
        return [(await response(reader))[2] for _ in range(2)]

    assert talk(server, scene) == ["usual GET /cold/ann", "usual GET /recommend/ann"]


@pytest.mark.parametrize("path", [b"/recommend/", b"/cold/"])
def test_an_idle_connection_is_closed(path: bytes) -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        for _ in range(3):  # each request starts the time again
            writer.write(PLAIN.replace(b"/recommend/", path))
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
        writer.write(PLAIN.replace(b"/recommend/", b"/cold/"))
        await response(reader)
        writer.write(PLAIN)
        await asyncio.sleep(2 * IDLE_S)
        server.release()
        return await response(reader)

    assert talk(server, scene)[0] == 200


@pytest.mark.parametrize("header", [b"X-API-Key: key-of-every-client", b"Authorization: Bearer key-of-every-client"])
def test_the_key_is_checked(header: bytes) -> None:
    server = Server(api_key=KEY)
    allowed, refused = answered(server, PLAIN.replace(b"\r\n\r\n", b"\r\n%b\r\n\r\n" % header), PLAIN)
    assert (refused[0], refused[1]["content-type"]) == (401, "application/problem+json")
    assert refused[1]["www-authenticate"] == "Bearer"  # the last of two
    assert json.loads(refused[2])["request_id"] == refused[1]["x-request-id"]
    assert allowed[0] == 200


def test_a_wrong_bearer_key_is_named_an_invalid_token() -> None:
    refused = answered(Server(api_key=KEY), PLAIN.replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer guess\r\n\r\n"))[0]
    assert (refused[0], refused[1]["www-authenticate"]) == (401, 'Bearer error="invalid_token"')


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
