"""`Server`: a Redis in memory, and the two clients with which the service speaks to it.

The server executes one command at a time and keeps what it has executed, as one with `appendfsync always` does. It can
be killed with commands on their way, hang, be slow, and come back older, empty, or with another clock.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import redis

from service.storage.errors import StreamUnavailable
from service.storage.events import ZERO, StreamId
from service.storage.streams.redis_client import COUNT, OFFER, REPACK, SOCKET_TIMEOUT_S, TRIM
from service.storage.streams.stream_writer import REPLY_TIMEOUT_S
from tests.simulation.virtual import World

Fields = dict[bytes, bytes]
Command = Callable[["Server"], Any]
HANGING_S = 0.1  # seconds; who waits longer is woken when the server dies


class State:
    """What the server keeps: streams, texts, and the last id of each stream."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[StreamId, Fields]] = {}  # of each entry, in order
        self.last: dict[str, StreamId] = {}
        self.texts: dict[str, bytes] = {}
        self.hashes: dict[str, dict[bytes, bytes]] = {}


class Server:
    """The server.

    Attributes:
        state: what it keeps.
        is_up: whether it takes connections.
        behind_s: by which its clock is behind that of the host.
        hangs_until_s: until when it answers nothing.
        versions: how often each key was changed.
        latency_s: longest time of a command or a reply on its way.
        reply_share: share of the replies that take time.
        on_add: told of each entry that is written.
        on_trim: told of the id up to which all is now gone, and of the entries that are removed. The id is `ZERO` if
            that is not new: when Redis has lost entries that a log has, they stay away.
    """

    def __init__(self, world: World) -> None:
        self.world, self.state = world, State()
        self.is_up, self.behind_s, self.hangs_until_s, self.latency_s = True, 0.0, 0.0, 0.002
        self.reply_share = 0.3
        self.run, self.versions = 1, Counter[str]()
        self.changed: list[Callable[[], None]] = []
        self.connections: list[Connection] = []  # no set: its order is another one in each process
        self.on_add: Callable[[StreamId, Fields], None] = lambda stream_id, fields: None
        self.on_trim: Callable[[StreamId, list[StreamId]], None] = lambda upto, removed: None

    # --- what happens to it

    def kill(self) -> None:
        """End it; what it has executed stays."""
        self.is_up, self.run, self.hangs_until_s = False, self.run + 1, 0.0
        self._wake()
        for connection in tuple(self.connections):
            connection.lose()

    def start(self, state: State | None = None) -> None:
        """Start it, with another state if it is given."""
        if state is not None:
            self.kill()  # it may have been started meanwhile
            self.state = state
        self.is_up = True
        self._wake()

    def travel_s(self) -> float:
        """How long a command or a reply is on its way now."""
        return self.world.random.random() * self.latency_s + max(0.0, self.hangs_until_s - self.world.time())

    def _wake(self) -> None:
        for wake in tuple(self.changed):
            wake()

    @property
    def clock_s(self) -> float:
        """Its wall clock."""
        return self.world.wall_s() - self.behind_s

    def after(self, key: str, position: StreamId) -> list[tuple[StreamId, Fields]]:
        """The entries of a stream after a position."""
        return [entry for entry in self.state.fields.get(key, {}).items() if entry[0] > position]

    def _change(self, key: str) -> None:
        self.versions[key] += 1
        self._wake()

    # --- commands, as redis-py names and answers them

    def xadd(self, key: str, fields: dict[Any, Any], id: str = "*") -> bytes:
        last, ms = self.state.last.get(key, ZERO), int(self.clock_s * 1000)
        if id == "*":
            added = StreamId(ms, 0) if ms > last.ms else StreamId(last.ms, last.seq + 1)
        elif (added := StreamId.parse(id)) <= last:
            raise redis.ResponseError("The ID specified in XADD is equal or smaller than the target stream top item")
        content = {_bytes(name): _bytes(value) for name, value in fields.items()}
        self.state.last[key] = added
        self.state.fields.setdefault(key, {})[added] = content
        if key.endswith(":ratings"):
            self.on_add(added, content)
        self._change(key)
        return str(added).encode()

    def xtrim(self, key: str, maxlen: int, approximate: bool) -> None:
        self._keep(key, ())

    def _keep(self, key: str, kept: Iterable[StreamId]) -> None:
        """Remove all other entries."""
        if key in self.state.fields:
            fields = self.state.fields[key]
            self.state.fields[key] = {each: fields[each] for each in kept}
            self._change(key)

    def xinfo_stream(self, key: str) -> dict[str, Any]:
        if key not in self.state.fields:
            raise redis.ResponseError("no such key")
        return {"last-generated-id": str(self.state.last[key]).encode(), "length": len(self.state.fields[key])}

    def xrange(self, key: str, count: int) -> list[tuple[bytes, Fields]]:
        return _raw(self.after(key, ZERO)[:count])

    def xrevrange(self, key: str, count: int) -> list[tuple[bytes, Fields]]:
        return _raw(reversed(self.after(key, ZERO)[-count:]))

    def xread(self, streams: dict[str, str], count: int, block: int | None = None) -> list[Any]:
        ((key, after),) = streams.items()
        entries = _raw(self.after(key, StreamId.parse(after))[:count])
        return [(key.encode(), entries)] if entries else []

    def get(self, key: str) -> bytes | None:
        return self.state.texts.get(key)

    def set(self, key: str, value: Any, nx: bool = False) -> None:
        if nx and key in self.state.texts:
            return
        self.state.texts[key] = _bytes(value)
        self._change(key)

    def delete(self, key: str) -> None:
        self.state.texts.pop(key, None)
        self.state.hashes.pop(key, None)

    def hset(self, key: str, mapping: dict[str, bytes]) -> None:
        self.state.hashes.setdefault(key, {}).update({name.encode(): value for name, value in mapping.items()})

    def hgetall(self, key: str) -> dict[bytes, bytes]:
        return dict(self.state.hashes.get(key, {}))

    def expire(self, key: str, seconds: int) -> None:
        """No world lasts so long."""

    def info(self, section: str) -> dict[str, Any]:
        return {"run_id": str(self.run)}

    def time(self) -> tuple[int, int]:
        return int(self.clock_s), int(self.clock_s % 1 * 1e6)

    def eval(self, script: str, n_keys: int, key: str, *arguments: Any) -> Any:
        ids = list(self.state.fields.get(key, {}))
        if script == TRIM:
            trimmed, _, upto, minimum = arguments
            place = bisect_left(ids, StreamId.parse(minimum))
            is_raised = self.state.texts.get(trimmed) != upto.encode()
            self.on_trim(StreamId.parse(upto) if is_raised else ZERO, ids[:place])
            self.set(trimmed, upto)
            return self._keep(key, ids[place:])
        if script == OFFER:
            lost, run, _, *pairs = arguments
            if self.get(key) == run.encode():
                return 1
            return self.hset(lost, dict(zip(pairs[::2], pairs[1::2], strict=True)))
        if script == COUNT:
            return len(self.after(key, StreamId.parse(arguments[0][1:])))
        assert script == REPACK
        most = int(arguments[0])
        return str(ids[most]).encode() if len(ids) > most else None


class Client:
    """A `redis.Redis`, as far as the service uses it, whose calls take time and fail with the server."""

    def __init__(self, server: Server) -> None:
        self._server, self._world = server, server.world

    def do(self, command: Command, is_due: Command | None = None, timeout_s: float = 0.0) -> Any:
        """Send a command, have it executed, when it `is_due` or late, and wait for the reply."""
        server = self._server
        if not server.is_up:
            raise redis.ConnectionError("refused")
        run = server.run  # a connection that was closed is opened again, in silence
        self._travel(run)
        if is_due is not None:
            self._world.wait_until(lambda: run != server.run or is_due(server), server.changed, timeout_s)
            if run != server.run:
                raise redis.ConnectionError("Connection closed by server.")
        value = command(server)
        if self._world.random.random() < server.reply_share:
            self._travel(run)
        return value

    def _travel(self, run: int) -> None:
        server, takes_s = self._server, self._server.travel_s()
        if takes_s < HANGING_S:
            self._world.sleep(takes_s)
        else:
            self._world.wait_until(lambda: run != server.run, server.changed, min(takes_s, SOCKET_TIMEOUT_S))
            if run == server.run and takes_s > SOCKET_TIMEOUT_S:
                raise redis.TimeoutError("Timeout reading from socket")
        if run != self._server.run:
            raise redis.ConnectionError("Connection closed by server.")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given, **options: self.do(lambda server: getattr(server, name)(*given, **options))

    def blpop(self, keys: list[str], timeout: float) -> None:
        """Nobody pushes."""
        self.do(lambda server: None, lambda server: False, timeout)

    def pipeline(self, transaction: bool = True) -> Pipeline:
        return Pipeline(self, is_queueing=True)

    def transaction(self, run: Callable[[Any], None], *watched: str) -> None:
        is_done = False
        while not is_done:
            pipeline = Pipeline(self, is_queueing=False)
            seen = self.do(lambda server: (server.run, [server.versions[key] for key in watched]))
            run(pipeline)

            def execute(server: Server, queued: list[Command] = pipeline.queued, seen: Any = seen) -> bool:
                if server.run != seen[0]:
                    raise redis.ConnectionError("Connection closed by server.")
                is_same = [server.versions[key] for key in watched] == seen[1]
                for command in queued if is_same else ():
                    command(server)
                return is_same

            is_done = self.do(execute)


class Pipeline:
    """Commands that are sent together: a blocking read and a text, or a transaction, which reads before `multi`."""

    def __init__(self, client: Client, *, is_queueing: bool) -> None:
        self._client, self._is_queueing = client, is_queueing
        self.queued: list[Command] = []
        self._is_due: Command | None = None
        self._block_s = 0.0

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left."""

    def multi(self) -> None:
        """What follows is executed at once, if nobody has changed what is watched."""
        self._is_queueing = True

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not self._is_queueing:
            return getattr(self._client, name)
        return lambda *given, **options: self.queued.append(lambda server: getattr(server, name)(*given, **options))

    def xread(self, streams: dict[str, str], count: int, block: int | None) -> None:
        self.queued.append(lambda server: server.xread(streams, count))
        if block:
            self._is_due, self._block_s = lambda server: bool(server.xread(streams, 1)), block / 1000

    def execute(self) -> list[Any]:
        return self._client.do(lambda server: [command(server) for command in self.queued], self._is_due, self._block_s)


class Connection:
    """A `service.storage.streams.stream_writer.Connection`."""

    server: Server  # of the present world

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost, self.is_open = on_lost, True
        self._waiting: list[asyncio.Future[Any]] = []
        self._order_s = 0.0
        self.server.connections.append(self)

    @classmethod
    async def open(cls, url: str, on_lost: Callable[[], None] = lambda: None) -> Connection:
        run, until_s = cls.server.run, cls.server.world.time() + cls.server.travel_s()
        while cls.server.world.time() < until_s and run == cls.server.run:
            await asyncio.sleep(min(until_s - cls.server.world.time(), HANGING_S))
        if not cls.server.is_up or run != cls.server.run:
            raise StreamUnavailable("Redis cannot be reached: refused")
        return cls(on_lost)

    async def run_id(self) -> str:
        return await self._reply(lambda server: str(server.run))

    async def call(self, name: str, *arguments: Any) -> Any:
        key, *rest = [part if isinstance(part, str) else part.decode() for part in arguments[:2]]
        if name == "EVAL":
            return await self._reply(lambda server: server.eval(key, int(rest[0]), *arguments[2:]))
        if "NOMKSTREAM" in rest:
            return await self._reply(lambda server: None)
        fields = dict(zip(*[iter(arguments[2:])] * 2, strict=True))
        return await self._reply(lambda server: server.xadd(key, fields))

    async def _reply(self, command: Callable[[Server], Any]) -> Any:
        if not self.is_open:
            raise StreamUnavailable("Redis connection is closed")
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append(future)
        watchdog = loop.call_later(REPLY_TIMEOUT_S, self.lose)
        arrives_s = self._order_s = max(self._order_s, loop.time() + self.server.travel_s())  # in the order of sending

        def execute() -> None:
            if self.is_open:
                value = command(self.server)
                loop.call_later(self.server.travel_s(), settle, value)

        def settle(value: Any) -> None:
            if self.is_open and not future.done():
                future.set_result(value)

        loop.call_at(arrives_s, execute)
        try:
            return await future
        finally:
            watchdog.cancel()
            self._waiting.remove(future)

    def lose(self) -> None:
        """The connection has ended."""
        if self.is_open:
            self.is_open = False
            self.server.connections.remove(self)
            for future in self._waiting:
                if not future.done():
                    future.set_exception(StreamUnavailable("Redis connection lost: closed"))
            self._on_lost()

    def close(self) -> None:
        if self.is_open:
            asyncio.get_running_loop().call_soon(self.lose)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _raw(entries: Iterable[tuple[StreamId, Fields]]) -> list[tuple[bytes, Fields]]:
    return [(str(stream_id).encode(), fields) for stream_id, fields in entries]
