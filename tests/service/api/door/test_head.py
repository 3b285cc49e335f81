"""Odd targets, `HEAD` and refused methods, over a socket."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from loadtest.client import Answer, Client
from tests.service.local import Local, serving

N_REQUESTS = 2000
USERS = [
    "u",
    "v",
    "nobody",
    "a%2Fb",
    "%C3%BC",
    "%FF",
    "%zz",
    "%",
    "u%00",
    "..",
    ".",
    "",
    "x" * 256,
    "x" * 257,
    "u+v",
    "u;p=1",
]
TAILS = ["", "", "", "/", "//", "/b", "/../v", "#", "#f", "#f?n=2", "#f/g", ";", "%23f", "%3Fn=2"]
NAMES = [
    "n",
    "offset",
    "exclude",
    "include_seen",
    "model",
    "explain",
    "fallback",
    "wait_for",
    "available",
    "tag.kind",
    "min.size",
    "tag.",
    "N",
    "n%20",
    "",
    "surprise",
]
VALUES = [
    "",
    "0",
    "1",
    "2",
    "3",
    "1000",
    "1001",
    "-1",
    "+2",
    "02",
    "2.0",
    "1e1",
    "%32",
    "%2",
    "%FF",
    "x",
    "y",
    "true",
    "false",
]
VALUES += [
    "True",
    "1 ",
    "yes",
    "popular",
    "none",
    "als",
    "culsh",
    "5",
    "1-0",
    "9000000000000-0",
    "a=b",
    "%26n=3",
    "x" * 257,
]
SEPARATORS = ["&", "&", "&", "&&", ";", "?", "#", "&amp;"]
TARGETS = [
    "/recommend",
    "/recommend/",
    "/Recommend/u",
    "//recommend/u",
    "http://localhost/recommend/u?n=2",
    "*",
    "/recommend/ü",
    "/recommend?/u",
]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with serving(tmp_path_factory.mktemp("ways") / "data") as local:
        for user in ("u", "v", "a/b", "ü"):
            local.rate((user, "x", 5.0), (user, "y", 3.0))
        changed = local.post("/items", {"item": "x", "tags": {"kind": ["1"]}, "numbers": {"size": 2}})
        local.get("/popular", wait_for=changed.json()["stream_id"])
        yield local


def protocol_of(app: Any) -> Callable[[], asyncio.BaseProtocol]:
    config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", proxy_headers=False)
    config.load()
    return lambda: app.connection(config=config, server_state=ServerState(), app_state={})


def targets() -> list[str]:
    """Paths and queries as clients write them, and worse, the same in every run."""
    chance = random.Random(0)

    def query() -> str:
        parts = [f"{chance.choice(NAMES)}={chance.choice(VALUES)}" for _ in range(chance.randrange(4))]
        return "".join(part + chance.choice(SEPARATORS) for part in parts)[:-1]

    def target() -> str:
        if chance.random() < 0.05:
            return chance.choice(TARGETS)
        mark = chance.choice(["?", "?", "?", "??", ""])
        return f"/recommend/{chance.choice(USERS)}{chance.choice(TAILS)}{mark}{query()}"

    return [target().replace(" ", "%20") for _ in range(N_REQUESTS)]


async def answers_of(app: Any, every_target: list[str]) -> list[Answer]:
    listener = await asyncio.get_running_loop().create_server(protocol_of(app), "127.0.0.1", 0)
    client = Client("http://{}:{}".format(*listener.sockets[0].getsockname()))
    found: list[Answer] = []
    for first in range(0, len(every_target), 20):
        found += await asyncio.gather(*(client.get(target) for target in every_target[first : first + 20]))
    await client.close()
    listener.close()
    return found


def test_odd_targets_are_answered_or_refused_in_words(local: Local) -> None:
    answers = local._run(answers_of(local.app, targets()))
    statuses = {answer.status for answer in answers}
    assert {200, 400, 404, 405, 422} <= statuses <= {200, 400, 404, 405, 422, 503}  # 503: `wait_for` of the far future
    told = [json.loads(answer.body) for answer in answers if answer.status in (400, 422)]
    assert [one for one in told if not one["detail"].startswith("Invalid ")] == []


async def heads_of(app: Any, every_target: list[str]) -> list[tuple[bytes, bytes]]:
    """What `GET` and then `HEAD` are answered for each target: all bytes that come on a connection of their own."""
    listener = await asyncio.get_running_loop().create_server(protocol_of(app), "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()

    async def asked(method: str, target: str) -> bytes:
        reader, writer = await asyncio.open_connection(host, port)
        # The second request shows where the first answer ends; an id of one length in every answer.
        for path, last in ((target, ""), ("/health/live", "Connection: close\r\n")):
            writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: one\r\n{last}\r\n".encode())
            await writer.drain()
            if not last:
                await asyncio.sleep(0.02)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return answer

    found = [(await asked("GET", target), await asked("HEAD", target)) for target in every_target]
    listener.close()
    return found


def head_of(answer: bytes) -> list[bytes]:
    """Status and headers of the first answer, but the date and its length, which depends on the digits of `took_ms`."""
    lines = answer.partition(b"\r\n\r\n")[0].split(b"\r\n")
    return sorted(line for line in lines if not line.lower().startswith((b"date:", b"content-length:")))


def length_of(answer: bytes) -> int:
    found = re.search(rb"content-length: (\d+)", answer)
    assert found is not None
    return int(found[1])


HEAD_TARGETS = [
    "/recommend/u?n=2",
    "/recommend/u?n=2&explain=true&min_ratings=1",
    "/recommend/nobody?fallback=none",
    "/recommend/u?n=0",
    "/recommend/u/x",
    "/popular?n=1",
    "/users/u/ratings",
    "/users/nobody/ratings",
    "/items/x/neighbors",
    "/estimate/u/x",
    "/admin/models",
    "/admin/jobs",
    "/admin/jobs/none",
    "/health/live",
    "/health/ready",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/ratings",
    "/none",
]


def test_head_is_get_without_a_body(local: Local) -> None:
    for target, (got, head) in zip(HEAD_TARGETS, local._run(heads_of(local.app, HEAD_TARGETS)), strict=True):
        assert head_of(head) == head_of(got), target
        assert length_of(head) > 0
        if target != "/metrics":  # it counts
            assert abs(length_of(head) - length_of(got)) <= 8, target
        first, _, rest = head.partition(b"\r\n\r\n")
        if b"connection: close" not in first.lower():
            assert rest.startswith(b"HTTP/1.1 200"), (target, rest)  # the next answer, no body before it
            assert rest.endswith(b"\r\n\r\n")


def test_a_refused_method_names_head_where_it_names_get(local: Local) -> None:
    assert local.request("PATCH", "/popular").headers["allow"] == "GET, HEAD"
    assert local.request("PATCH", "/ratings").headers["allow"] == "POST"
    assert local.request("HEAD", "/ratings").status_code == 405
