"""`Link` against a peer on a real socket that answers, hangs, dies and comes back as it is told."""

import asyncio
from array import array
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from service.base.errors import InvalidRequest, NotReady, Overloaded
from service.engine.errors import UnknownUser
from service.engine.queries import Recommend
from service.engine.queries.columns import Ids, ListColumns
from service.processes import link as links
from service.processes.frames import Frames
from service.processes.link import HUNG, STARTING, Link, by_socket
from service.processes.messages import (
    Answered,
    Count,
    Counted,
    Drop,
    Ended,
    Hello,
    Request,
    State,
    VerifyRedis,
    decode_from_front,
    failed,
)
from service.storage.errors import LogUnavailable
from tests.service.waiting import soon

MAX_OPEN = 3
READY = State(None)


class Engine:
    """The other end: keeps what it receives, and sends what a test wants."""

    def __init__(self, path: Path, state: State | None = READY) -> None:
        self.path, self.state = path, state
        self.received: list[Any] = []
        self.connections: list[Frames] = []

    async def start(self) -> None:
        self._server = await asyncio.get_running_loop().create_unix_server(self._connected, str(self.path))

    def _connected(self) -> Frames:
        frames = Frames(decode_from_front, self._receive, lambda: None)
        self.connections.append(frames)
        return frames

    def _receive(self, messages: list[Any]) -> None:
        self.received += messages
        if any(isinstance(message, Hello) for message in messages) and self.state is not None:
            self.send(self.state)

    def send(self, message: Any) -> None:
        self.connections[-1].send(message)

    def asked(self) -> list[int]:
        return [message.id for message in self.received if isinstance(message, VerifyRedis | Request)]

    def dropped(self) -> list[int]:
        return [message.id for message in self.received if isinstance(message, Drop)]

    async def keep_telling(self) -> None:
        while True:
            self.send(READY)
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        self._server.close()
        for frames in self.connections:
            frames.close()
        self.path.unlink(missing_ok=True)


Check = Callable[[Link, Engine], Awaitable[None]]
Linked = Callable[[Check], list[str]]


@pytest.fixture
def linked(tmp_path: Path) -> Linked:
    """Runs a check with a link and an engine; returns a list with an entry for each connection of the link."""

    def run(check: Check, state: State | None = READY) -> list[str]:
        opened: list[str] = []
        registry = CollectorRegistry()
        Counter("nearfield_things", "Things.", registry=registry).inc(5)

        async def checked() -> None:
            engine = Engine(tmp_path / "engine.sock", state)
            await engine.start()
            link = Link(by_socket(engine.path), "front-1", MAX_OPEN, registry, lambda: opened.append("open"))
            link.start()
            try:
                await soon(lambda: Hello("front-1", []) in engine.received)
                await check(link, engine)
            finally:
                await link.stop()
                await engine.stop()

        asyncio.run(checked())
        return opened

    return run


def asking(link: Link) -> asyncio.Task[list[bytes]]:
    async def answer() -> list[bytes]:
        return await link.ask(lambda n: VerifyRedis(n, "run"))

    return asyncio.create_task(answer())


async def refusal(link: Link) -> BaseException | None:
    """The error of a request that the link refuses at once."""
    task = asking(link)
    await asyncio.wait({task}, timeout=60)
    return task.exception()


async def usable(link: Link) -> None:
    await soon(lambda: link.write_refusal() is None)


def test_answers_find_their_requests_in_any_order(linked: Linked) -> None:
    async def check(link: Link, engine: Engine) -> None:
        await usable(link)
        tasks = [asking(link) for _ in range(MAX_OPEN)]
        await soon(lambda: len(engine.asked()) == MAX_OPEN)
        first, second, third = engine.asked()
        engine.send(Answered(third, [b"3", b"also 3"]))
        engine.send(failed(first, UnknownUser("nobody")))
        engine.send(Answered(999, [b"to no request"]))
        engine.send(Answered(second, [b"2"]))
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found[0], UnknownUser)
        assert found[1:] == [[b"2"], [b"3", b"also 3"]]

    assert linked(check) == ["open"]


def test_too_many_open_requests_are_refused(linked: Linked) -> None:
    async def check(link: Link, engine: Engine) -> None:
        await usable(link)
        tasks = [asking(link) for _ in range(MAX_OPEN)]
        await soon(lambda: len(engine.asked()) == MAX_OPEN)
        assert isinstance(await refusal(link), Overloaded)
        engine.send(Answered(engine.asked()[0], []))
        assert await tasks[0] == []
        task = asking(link)
        await soon(lambda: len(engine.asked()) == MAX_OPEN + 1)
        for other in (task, *tasks[1:]):
            other.cancel()

    linked(check)


def test_a_cancelled_request_is_dropped_and_its_answer_ignored(linked: Linked) -> None:
    async def check(link: Link, engine: Engine) -> None:
        await usable(link)
        task = asking(link)
        await soon(lambda: len(engine.asked()) == 1)
        task.cancel()
        await soon(lambda: engine.dropped() == engine.asked())
        engine.send(Answered(engine.asked()[0], [b"too late"]))
        other = asking(link)
        await soon(lambda: len(engine.asked()) == 2)
        engine.send(Answered(engine.asked()[1], [b"in time"]))
        assert await other == [b"in time"]

    linked(check)


USERS = Ids.of([b"ann", b"bob"])
PLAIN = Recommend(users=USERS), "127.0.0.1", None, ""


def uints(*numbers: int) -> bytes:
    return array("I", numbers).tobytes()


# Two lists, of one item and of none:
HONEST: dict[str, Any] = {
    "text": b'{"item":"x","score":0.1',
    "ends": uints(23, 23),
    "places": uints(1, 0),
    "kinds": uints(0, 1),
    "tails": [b"}]}", b"]}"],
}
LIES: dict[str, dict[str, Any]] = {
    "text in no list": {"ends": uints(20, 22)},
    "descending ends": {"ends": uints(23, 20)},
    "ends beyond the text": {"ends": uints(23, 24)},
    "one end beyond the text": {"ends": uints(24, 23)},
    "one list": {"ends": uints(23)},
    "no list": {"ends": b"", "text": b""},
    "three lists": {"ends": uints(0, 23, 23)},
    "half an end": {"ends": b"\x17\0\0\0\x17\0"},
    "a user twice": {"places": uints(1, 1)},
    "a user beyond": {"places": uints(1, 2)},
    "one place": {"places": uints(1)},
    "half a place": {"places": b"\1\0\0\0\0\0"},
    "no tail": {"tails": []},
    "a tail beyond": {"kinds": uints(0, 2)},
    "one kind": {"kinds": uints(0)},
    "three kinds": {"kinds": uints(0, 1, 1)},
    "half a kind": {"kinds": b"\0\0\0\0\1\0"},
}


def asking_for_lists(link: Link) -> asyncio.Task[list[bytes]]:
    async def answer() -> list[bytes]:
        return await link.ask(lambda n: Request(n, *PLAIN), USERS)

    return asyncio.create_task(answer())


def test_plain_lists_are_written_here(linked: Linked) -> None:
    async def check(link: Link, engine: Engine) -> None:
        await usable(link)
        task = asking_for_lists(link)
        await soon(engine.asked)
        engine.send(Answered(engine.asked()[0], ListColumns(**HONEST)))
        assert await task == [b'{"user":"ann","items":[]}', b'{"user":"bob","items":[{"item":"x","score":0.1}]}']

    linked(check)


@pytest.mark.parametrize(
    "answer", [*(ListColumns(**HONEST | lie) for lie in LIES.values()), [b"{}", b"{}"]], ids=[*LIES, "usual bodies"]
)
def test_an_engine_that_lies_is_left_and_asked_again(linked: Linked, answer: Any) -> None:
    async def check(link: Link, engine: Engine) -> None:
        await usable(link)
        tasks = [asking(link), asking_for_lists(link)]
        await soon(lambda: len(engine.asked()) == 2)
        engine.send(Answered(engine.asked()[1], answer))
        engine.send(Answered(engine.asked()[0], [b"of the same frame"]))
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(error, NotReady)
        await soon(lambda: engine.received.count(Hello("front-1", [])) == 2)
        await usable(link)
        task = asking_for_lists(link)
        await soon(lambda: len(engine.asked()) == 3)
        engine.send(Answered(engine.asked()[2], ListColumns(**HONEST)))
        assert len(await task) == 2

    assert linked(check) == ["open", "open"]


def test_columns_for_a_usual_request_are_a_lie_too(linked: Linked) -> None:
    async def check(link: Link, engine: Engine) -> None:
        await usable(link)
        task = asking(link)
        await soon(engine.asked)
        engine.send(Answered(engine.asked()[0], ListColumns(**HONEST)))
        with pytest.raises(NotReady):
            await task
        await soon(lambda: engine.received.count(Hello("front-1", [])) == 2)

    linked(check)


def test_open_requests_are_counted_one_by_one(linked: Linked) -> None:
    async def check(link: Link, engine: Engine) -> None:
        await usable(link)
        for _ in range(3):  # none of them is counted twice, or for ever
            tasks = [asking(link), asking_for_lists(link)]
            await soon(lambda: len(engine.asked()) == 2)
            assert isinstance(await refusal(link), Overloaded)
            _, second = engine.asked()
            tasks[0].cancel()
            engine.send(Answered(second, ListColumns(**HONEST)))
            await tasks[1]
            engine.received.clear()
        many = Ids.of([b"a", b"b", b"c", b"d"])
        alone = link.ask(lambda n: Request(n, Recommend(users=many), *PLAIN[1:]), many)
        await soon(engine.asked)
        with pytest.raises(Overloaded):
            link.ask(lambda n: Request(n, *PLAIN), USERS)
        alone.cancel()

    linked(check)


def test_a_message_that_is_made_wrong_is_an_error_of_the_program(linked: Linked) -> None:
    """And no `InvalidRequest`, which callers take for a fault of the client, or try again."""

    async def check(link: Link, engine: Engine) -> None:
        await usable(link)
        for _ in range(2 * MAX_OPEN):  # none of them stays open
            with pytest.raises(TypeError):
                link.ask(VerifyRedis)  # type: ignore[arg-type]
        assert engine.asked() == []

    linked(check)


@pytest.mark.parametrize("content", [10**30, "\ud800"])
def test_what_cannot_be_sent_is_an_invalid_request(linked: Linked, content: Any) -> None:
    async def check(link: Link, engine: Engine) -> None:
        await usable(link)
        for _ in range(2 * MAX_OPEN):  # none of them stays open
            with pytest.raises(InvalidRequest):
                await link.ask(lambda n: VerifyRedis(n, content))
        assert not engine.asked()

    linked(check)


def test_before_the_first_state_everything_is_refused(linked: Linked) -> None:
    async def check(link: Link, engine: Engine) -> None:
        error = link.write_refusal()
        assert isinstance(error, NotReady)
        assert str(error) == STARTING
        assert isinstance(await refusal(link), NotReady)
        engine.send(State(failed(0, LogUnavailable("disk full"))))
        await soon(lambda: isinstance(link.write_refusal(), LogUnavailable))
        engine.send(READY)
        await usable(link)

    run: Any = linked
    assert run(check, None) == ["open"]


def test_a_lost_engine_refuses_and_a_new_one_is_found(linked: Linked) -> None:
    async def check(link: Link, engine: Engine) -> None:
        await usable(link)
        task = asking(link)
        await soon(lambda: len(engine.asked()) == 1)
        await engine.stop()
        with pytest.raises(NotReady, match="starting"):
            await task
        assert isinstance(link.write_refusal(), NotReady)
        assert isinstance(await refusal(link), NotReady)
        engine.received.clear()
        await engine.start()
        await soon(lambda: Hello("front-1", []) in engine.received)
        await usable(link)
        task = asking(link)
        await soon(lambda: len(engine.asked()) == 1)
        engine.send(Answered(engine.asked()[0], [b"new"]))
        assert await task == [b"new"]

    assert linked(check) == ["open", "open"]


def test_a_silent_engine_is_refused_until_it_speaks(linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "SILENT_S", 0.4)

    async def check(link: Link, engine: Engine) -> None:
        telling = asyncio.create_task(engine.keep_telling())
        await usable(link)
        task = asking(link)
        await asyncio.sleep(1.0)
        assert not task.done(), "an engine that speaks may take its time"
        telling.cancel()
        with pytest.raises(NotReady, match="silent"):
            await task
        assert str(link.write_refusal()) == HUNG
        assert isinstance(await refusal(link), NotReady)
        await soon(lambda: engine.dropped() == engine.asked())  # it must not do it later
        telling = asyncio.create_task(engine.keep_telling())
        await usable(link)
        telling.cancel()

    assert linked(check) == ["open"]


def test_the_successor_of_an_engine_hears_of_the_counters_that_the_engine_kept(linked: Linked) -> None:
    ended = [("nearfield_things_total", {"kind": "old"}, 3.0)]

    async def check(link: Link, engine: Engine) -> None:
        await usable(link)
        engine.send(Ended(ended))
        await engine.stop()
        await engine.start()
        await soon(lambda: Hello("front-1", ended) in engine.received)

    linked(check)


def test_metrics_are_sent_when_asked_for_and_at_the_end(linked: Linked) -> None:
    engines: list[Engine] = []

    async def check(link: Link, engine: Engine) -> None:
        engines.append(engine)
        await usable(link)
        engine.send(Count())
        await soon(lambda: counts(engine) == 1)

    linked(check)
    (engine,) = engines
    assert counts(engine) == 2
    last = next(message for message in reversed(engine.received) if isinstance(message, Counted))
    assert ("nearfield_things_total", {}, 5.0) in last.samples


def counts(engine: Engine) -> int:
    return sum(isinstance(message, Counted) for message in engine.received)
