"""`Endpoint` of a real service, asked by fronts on real sockets that leave, hang or ask for what fails."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from service.api.operations import GetMetrics, GetReadiness, ListJobs
from service.base.errors import NotReady
from service.engine.errors import NotSeenYet, UnknownUser
from service.engine.queries import Popular, Recommend, UserRatings
from service.engine.queries.columns import Ids
from service.processes import endpoint as endpoints
from service.processes.frames import LENGTH_BYTES, Frames
from service.processes.front_serving import FrontServing
from service.processes.messages import (
    Answered,
    Drop,
    Failed,
    Hello,
    Request,
    SharedRequest,
    State,
    Unforeseen,
    VerifyRedis,
    decode_from_engine,
    error_of,
)
from service.storage.errors import StreamUnavailable
from service.storage.events import RatingEvent, StreamId, encode_ratings
from service.storage.streams.redis_server import RedisServer, runtime_folder
from service.telemetry.metrics import CACHED_S, PLAIN_TEXT
from tests.service.local import Local, serving
from tests.service.waiting import eventually, soon

FAR = "9000000000000-0"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with serving(tmp_path_factory.mktemp("endpoint") / "data", backend="host", worker=False) as local:
        local.get("/popular", wait_for=local.rate(("u", "x", 5.0), ("v", "x", 4.0)))
        yield local


class Front:
    """A front that answers nothing by itself."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.frames = Frames(decode_from_engine, self._receive, lambda: None)

    def _receive(self, messages: list[Any]) -> None:
        self.received += messages

    @classmethod
    async def connected(cls, local: Local) -> Front:
        path = socket_of(local)
        _, frames = await asyncio.get_running_loop().create_unix_connection(lambda: cls().frames, str(path))
        front: Front = frames._receive.__self__  # type: ignore[attr-defined]
        front.send(Hello("front-9", []))
        await soon(lambda: any(isinstance(one, State) for one in front.received))
        return front

    def send(self, message: Any) -> None:
        self.frames.send(message)

    async def answer(self, number: int) -> Any:
        """The body of the only answer to a request, or its error."""
        (answer,) = await soon(lambda: self.answers(number))
        return error_of(answer) if isinstance(answer, Failed) else answer.answer[0] if answer.answer else b""

    def answers(self, number: int) -> list[Any]:
        return [one for one in self.received if isinstance(one, Answered | Failed) and one.id == number]


def socket_of(local: Local) -> Path:
    return runtime_folder(local.runtime.settings.data) / "engine.sock"


def request(number: int, content: Any, wait_for: str = "") -> Request:
    return Request(number, content, "127.0.0.1", None, wait_for)


def test_queries_and_operations_of_one_turn_are_answered_each(local: Local) -> None:
    async def check() -> None:
        front = await Front.connected(local)
        for number, content in enumerate((Popular(), UserRatings(user="u"), UserRatings(user="none"), ListJobs())):
            front.send(request(number, content))
        front.send(request(9, GetReadiness(), wait_for="0-0"))
        assert b'"item":"x"' in await front.answer(0)
        assert b'"user":"u"' in await front.answer(1)
        assert isinstance(await front.answer(2), UnknownUser)
        assert await front.answer(3) == b'{"jobs":[]}'
        assert b'"ready"' in await front.answer(9)
        front.frames.close()

    local._run(check())


def test_only_the_server_of_the_engine_is_verified(local: Local) -> None:
    with redis.Redis.from_url(RedisServer(local.runtime.settings.data).url, decode_responses=True) as client:
        run_id = client.info("server")["run_id"]

    async def check() -> None:
        front = await Front.connected(local)
        front.send(VerifyRedis(1, run_id))
        front.send(VerifyRedis(2, "0" * 40))
        assert await front.answer(1) == b""
        error = await front.answer(2)
        assert isinstance(error, StreamUnavailable)
        assert "replaced" in str(error)
        front.frames.close()

    local._run(check())


USERS = Ids.of([b"u", b"v", b"none"])
PLAIN = request(7, Recommend(users=USERS, n=2))
LIES: dict[str, dict[str, Any]] = {
    "descending": {"ends": (3, 2, 6)},
    "an empty id": {"ends": (0, 2, 6)},
    "two equal ends": {"ends": (2, 2, 6)},
    "beyond the bytes": {"ends": (1, 2, 7)},
    "too few bytes": {"ends": (1, 2, 5)},
    "no user": {"ends": (), "text": b""},
    "a large number": {"ends": (1, 2, 2**32 - 1)},
    "no whole number": {"ends": b"\1\0\0\0\2\0"},
    "no UTF-8": {"text": b"uv\xff\xfe\x80\x80"},
    "half a character": {"text": "u\u00e9one".encode()},
    "no bytes": {"ends": "abc"},
    "no columns": {"ends": None},
}


def lying(lie: dict[str, Any]) -> bytes:
    """A frame with `PLAIN` and other columns."""
    (message,) = msgspec.msgpack.decode(msgspec.msgpack.encode([PLAIN]))
    columns = {"ends": (1, 2, 6), **lie}
    if isinstance(columns["ends"], tuple):
        columns["ends"] = array("I", columns["ends"]).tobytes()
    message[2]["users"].update(columns)
    return framed(msgspec.msgpack.encode([message]))


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(LENGTH_BYTES) + body


def test_plain_lists_are_answered_in_columns(local: Local) -> None:
    async def check() -> None:
        front = await Front.connected(local)
        front.send(PLAIN)
        (answer,) = await soon(lambda: front.answers(7))
        bodies = answer.answer.bodies(USERS)
        assert [msgspec.json.decode(body)["user"] for body in bodies] == ["u", "v", "none"]
        front.frames.close()

    local._run(check())


def test_plain_lists_of_several_clients_are_answered_together(local: Local) -> None:
    async def check() -> None:
        front = await Front.connected(local)
        front.send(SharedRequest(7, Recommend(users=USERS, n=2), [("10.0.0.1", None, 2), ("10.0.0.2", None, 1)]))
        (answer,) = await soon(lambda: front.answers(7))
        bodies = answer.answer.bodies(USERS)
        assert [msgspec.json.decode(body)["user"] for body in bodies] == ["u", "v", "none"]
        front.frames.close()

    local._run(check())


def shared_lie(portions: list[Any], content: Any = None) -> bytes:
    """A frame with a request of several clients and these numbers of users."""
    honest = SharedRequest(7, Recommend(users=USERS, n=2), [("a", None, 3)])
    (message,) = msgspec.msgpack.decode(msgspec.msgpack.encode([honest]))
    message[3] = portions
    message[2] = message[2] if content is None else msgspec.to_builtins(content)
    return framed(msgspec.msgpack.encode([message]))


SHARED_LIES = {
    "too few users": shared_lie([("a", None, 2)]),
    "too many users": shared_lie([("a", None, 2), ("b", None, 2)]),
    "a client without users": shared_lie([("a", None, 3), ("b", None, 0)]),
    "a negative number": shared_lie([("a", None, 4), ("b", None, -1)]),
    "no client": shared_lie([]),
    "no plain list": shared_lie([("a", None, 1)], Recommend(user="u")),
    "another query": shared_lie([("a", None, 1)], Popular()),
}
ALL_LIES = {name: lying(lie) for name, lie in LIES.items()} | SHARED_LIES | {"no msgpack": lying({})[:-9] + b"\xc1" * 9}


@pytest.mark.parametrize("lie", ALL_LIES.values(), ids=list(ALL_LIES))
def test_a_front_that_lies_loses_its_connection_alone(local: Local, lie: bytes) -> None:
    async def check() -> None:
        honest, liar = await Front.connected(local), await Front.connected(local)
        n_fronts = len(local.endpoint._fronts)
        honest.send(request(1, Popular(), wait_for=FAR))
        liar.send(request(2, Popular(), wait_for=FAR))
        await asyncio.sleep(0)
        liar.frames._transport.write(lie)  # type: ignore[union-attr]
        await soon(lambda: len(local.endpoint._fronts) == n_fronts - 1)
        await soon(lambda: not liar.frames.is_open)
        assert not liar.answers(7)
        honest.send(PLAIN)
        assert await soon(lambda: honest.answers(7))
        again = await Front.connected(local)
        again.send(PLAIN)
        assert await soon(lambda: again.answers(7))
        for front in (honest, again):
            front.frames.close()
        await soon(lambda: len(local.endpoint._fronts) == n_fronts - 2)

    local._run(check())


HALF = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
HALF += "s.sendall(bytes.fromhex(sys.argv[2])); print('sent', flush=True); time.sleep(60)"


def test_a_front_that_is_killed_within_a_frame_costs_nobody_else_anything(local: Local) -> None:
    whole = framed(msgspec.msgpack.encode([Hello("front-8", []), PLAIN]))
    endpoint = local.endpoint

    async def check() -> None:
        honest = await Front.connected(local)
        n_fronts = len(endpoint._fronts)
        for n_bytes in (2, LENGTH_BYTES, len(whole) // 2, len(whole) - 1):
            command = [sys.executable, "-c", HALF, str(socket_of(local)), whole[:n_bytes].hex()]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as front:
                assert front.stdout is not None
                await asyncio.to_thread(front.stdout.readline)
                front.send_signal(signal.SIGKILL)
            honest.send(request(n_bytes, Popular()))
            assert b'"item":"x"' in await honest.answer(n_bytes)
        assert len(endpoint._fronts) == n_fronts
        honest.frames.close()

    local._run(check())


@pytest.mark.parametrize("is_polite", [True, False])
def test_requests_of_a_front_that_drops_them_or_leaves_are_given_up(local: Local, is_polite: bool) -> None:
    endpoint = local.endpoint

    async def check() -> None:
        front = await Front.connected(local)
        (ours,) = (one for one in endpoint._fronts if one._name == "front-9")
        for number in range(5):
            front.send(request(number, Popular(), wait_for=FAR))
        front.send(request(5, Popular()))
        await soon(lambda: len(ours._tasks) == 5)
        await front.answer(5)
        if is_polite:
            for number in range(5):
                front.send(Drop(number))
        else:
            front.frames.close()
        await soon(lambda: not ours._tasks and not ours.open)
        assert not any(front.answers(number) for number in range(5))
        front.frames.close()
        await soon(lambda: ours not in endpoint._fronts)

    local._run(check())


def test_work_that_is_cancelled_or_cannot_be_encoded_is_answered_with_an_error(local: Local) -> None:
    endpoint = local.endpoint

    async def cancelled() -> list[bytes]:
        raise asyncio.CancelledError

    async def check() -> None:
        front = await Front.connected(local)
        (ours,) = (one for one in endpoint._fronts if one._name == "front-9")
        ours._start(1, cancelled())
        assert isinstance(await front.answer(1), NotReady)
        ours.open |= {2, 3}
        endpoints._Promise(ours, 2).set_result(object())
        endpoints._Promise(ours, 3).set_exception(UnknownUser("nobody"))
        assert isinstance(await front.answer(2), Unforeseen)
        assert isinstance(await front.answer(3), UnknownUser)
        assert endpoints._Promise(ours, 3).done()
        front.frames.close()

    local._run(check())


def test_a_front_that_does_not_read_is_refused_further_answers(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.processes.frames.MAX_UNSENT_BYTES", 100_000)
    endpoint = local.endpoint

    async def check() -> None:
        front = await Front.connected(local)
        (ours,) = (one for one in endpoint._fronts if one._name == "front-9")
        transport: Any = front.frames._transport
        transport.pause_reading()
        ours.open.add(1)
        ours.answer(1, [b"x" * (4 << 20)])
        await soon(lambda: ours.frames.is_full)
        front.send(request(2, Popular()))
        await soon(lambda: ours.frames.is_full and not ours.open)
        transport.resume_reading()
        assert len(await front.answer(1)) == 4 << 20
        assert await front.answer(2) is not None
        front.send(request(3, Popular()))
        assert isinstance(await front.answer(3), bytes)
        front.frames.close()

    local._run(check())


def test_a_front_that_hangs_delays_the_metrics_of_the_others_by_little(local: Local) -> None:
    async def page() -> tuple[float, bytes]:
        front = await Front.connected(local)
        await asyncio.sleep(CACHED_S)
        begun_s = time.monotonic()
        front.send(request(1, GetMetrics(PLAIN_TEXT)))
        body = await front.answer(1)
        front.frames.close()
        return time.monotonic() - begun_s, body

    for _ in range(2):
        assert local.get("/popular").status_code == 200
    took_s, body = local._run(page())
    assert endpoints.COUNT_TIMEOUT_S <= took_s < 60
    (line,) = (one for one in body.decode().splitlines() if "requests_total{" in one and 'route="/popular"' in one)
    assert float(line.split()[-1]) >= 2
    eventually(lambda: local.endpoint.n_connected == 2, 60)  # the front and the archiver's process


def test_a_front_in_the_same_process_asks_is_refused_and_leaves_as_any_other(local: Local) -> None:
    endpoint = local.endpoint

    async def check() -> None:
        front = FrontServing(local.runtime.settings, endpoint.connect, "front-9", is_alone=False)
        front.start()
        await soon(lambda: any(one._name == "front-9" for one in endpoint._fronts))
        (ours,) = (one for one in endpoint._fronts if one._name == "front-9")
        assert b'"item":"x"' in await front.answer(Popular())
        assert await front.operate(ListJobs()) == b'{"jobs":[]}'
        with pytest.raises(UnknownUser, match="none"):
            await front.answer(UserRatings(user="none"))
        with pytest.raises(NotSeenYet):
            await front.answer(Popular(), StreamId.parse(FAR))
        written = await front.append(encode_ratings([RatingEvent("w", "x", 2.0, 1.0)]))
        assert b'"user":"w"' in await front.answer(UserRatings(user="w"), written)
        waiting = [asyncio.ensure_future(front.answer(Popular(), StreamId.parse(FAR))) for _ in range(3)]
        await soon(lambda: len(ours._tasks) == 3)
        waiting[0].cancel()
        await soon(lambda: len(ours._tasks) == 2)
        front.metrics.jobs_finished.labels("succeeded").inc(7)
        await asyncio.sleep(CACHED_S)
        page = (await front.operate(GetMetrics(PLAIN_TEXT))).decode().splitlines()
        assert 'nearfield_jobs_finished_total{state="succeeded"} 7.0' in page
        await front.stop()
        await soon(lambda: ours not in endpoint._fronts and not ours._tasks)
        for task in waiting[1:]:
            with pytest.raises(NotReady):
                await task

    local._run(check())
