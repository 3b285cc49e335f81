"""`GET /recommend/{user}` has a short way, a lane and a route behind both: a request has one answer in each."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from loadtest.client import Answer, Client
from service.routes.door import Door
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


class Way(NamedTuple):
    """A protocol factory that answers requests in one of the ways."""

    name: str
    protocol: Callable[[], asyncio.BaseProtocol]


class Framework:
    """The application without lanes and without a short way."""

    def __init__(self, app: FastAPI) -> None:
        runtime = app.state.runtime
        self._app, self._door = app, Door(FastAPI.build_middleware_stack(app), runtime.settings, runtime.metrics, {})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = self._app
        await self._door(scope, receive, send)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with serving(tmp_path_factory.mktemp("ways") / "data") as local:
        for user in ("u", "v", "a/b", "ü"):
            local.rate((user, "x", 5.0), (user, "y", 3.0))
        yield local


def ways(app: Any) -> list[Way]:
    def options(application: Any) -> dict[str, Any]:
        config = uvicorn.Config(application, log_config=None, access_log=False, ws="none", proxy_headers=False)
        config.load()
        return {"config": config, "server_state": ServerState(), "app_state": {}}

    return [
        Way("short", lambda: app.connection(**options(app))),
        Way("lane", lambda: HttpToolsProtocol(**options(app))),
        Way("framework", lambda: HttpToolsProtocol(**options(Framework(app)))),
    ]


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


async def answers_of(way: Way, every_target: list[str]) -> list[Answer]:
    listener = await asyncio.get_running_loop().create_server(way.protocol, "127.0.0.1", 0)
    client = Client("http://{}:{}".format(*listener.sockets[0].getsockname()))
    found: list[Answer] = []
    for first in range(0, len(every_target), 20):
        found += await asyncio.gather(*(client.get(target) for target in every_target[first : first + 20]))
    await client.close()
    listener.close()
    return found


def shown(answer: Answer) -> tuple[int, Any]:
    """Status and body, without what is of one request only."""
    if b"json" not in answer.head:
        return answer.status, answer.body
    return answer.status, {k: v for k, v in json.loads(answer.body).items() if k not in ("took_ms", "request_id")}


def test_every_way_gives_the_same_answer(local: Local) -> None:
    every_target = targets()
    found = {way.name: local._run(answers_of(way, every_target)) for way in ways(local.app)}
    differing = {
        target: {name: shown(answers[number]) for name, answers in found.items()}
        for number, target in enumerate(every_target)
        if len({repr(shown(answers[number])) for answers in found.values()}) > 1
    }
    assert not differing, f"{len(differing)} of {N_REQUESTS}: {list(differing.items())[:5]}"
    statuses = {answer.status for answer in found["short"]}
    assert statuses >= {200, 400, 404, 422}
    assert 0 not in statuses
