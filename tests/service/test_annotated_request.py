"""The page docs/annotated-request.md: each function that it names exists, and is called where the page says so."""

import ast
import asyncio
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from tests.service.local import Local, serving
from tests.service.trained import train
from tests.service.waiting import eventually, soon

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "annotated-request.md"
STOP = re.compile(r"^\d+\. `([\w/]+\.py)`: `([\w.]+)`", re.MULTILINE)
USERS, ITEMS = 20, 12


class Stop(NamedTuple):
    file: str
    function: str


def walks() -> dict[str, list[Stop]]:
    """The stops below each heading of the page that has any."""
    _, *parts = re.split(r"^## (.+)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    found = {
        name: [Stop(*stop) for stop in STOP.findall(text)] for name, text in zip(parts[::2], parts[1::2], strict=True)
    }
    return {name: stops for name, stops in found.items() if stops}


def functions(tree: ast.AST, prefix: str = "") -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name


@pytest.mark.parametrize("stop", [stop for stops in walks().values() for stop in stops], ids="{0.function}".format)
def test_each_function_is_in_its_file(stop: Stop) -> None:
    assert stop.function in set(functions(ast.parse((ROOT / stop.file).read_text("utf-8"))))


class Calls:
    """Notes, in all threads that begin under `watching`, which code each of them calls first when."""

    def __init__(self) -> None:
        self.is_on = False
        self._first: dict[tuple[str, CodeType], None] = {}  # in order of the first calls

    def note(self, frame: FrameType, event: str, _: object) -> None:
        if self.is_on and event == "call":
            self._first.setdefault((threading.current_thread().name, frame.f_code))

    def taken(self) -> list[tuple[str, Stop]]:
        """(thread, function) of all first calls since the last time."""
        noted = self.stops()
        self._first = {}
        return noted

    def stops(self) -> list[tuple[str, Stop]]:
        noted = list(self._first)
        inside = ((thread, code) for thread, code in noted if code.co_filename.startswith(f"{ROOT}/"))
        return [(thread, Stop(code.co_filename[len(f"{ROOT}/") :], code.co_qualname)) for thread, code in inside]

    @contextmanager
    def watching(self) -> Iterator[None]:
        threading.setprofile(self.note)
        try:
            yield
        finally:
            threading.setprofile(None)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, Stop]]]:
    """What is called by one rating, until all have learned it, and then by one list."""
    data, noted = tmp_path_factory.mktemp("annotated") / "data", Calls()
    with noted.watching(), serving(data, backend="host", worker=False) as local:
        local._loop.call_soon_threadsafe(sys.setprofile, noted.note)  # its thread began before
        version = trained(local, data)
        assert local.request("POST", f"/admin/models/{version}/activate").status_code == 202
        eventually(lambda: local.get("/recommend/u1").json()["personalized"])
        return local._run(asked(local, noted))


def trained(local: Local, data: Path) -> str:
    last = local.rate(
        *((f"u{u}", f"i{i}", float(u * i % 5 + 1)) for u in range(USERS) for i in range(ITEMS) if (u + i) % 3)
    )
    log, position = RatingLog(data / "ratings"), StreamId.parse(last)
    local.runtime._stream.request_commit(position)
    eventually(lambda: log.last_id() >= position)
    return str(train(data, "als-implicit", {"n_factors": 8, "n_epochs": 3}, position).version)


async def asked(local: Local, noted: Calls) -> dict[str, list[tuple[str, Stop]]]:
    config = uvicorn.Config(local.app, log_config=None, access_log=False, ws="none", proxy_headers=False)
    config.load()
    options = {"config": config, "server_state": ServerState(), "app_state": {}}
    listener = await asyncio.get_running_loop().create_server(lambda: local.app.connection(**options), "127.0.0.1", 0)
    url = "http://{}:{}".format(*listener.sockets[0].getsockname())
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        await client.get("/health/live")
        noted.is_on = True
        answer = await client.post("/ratings", json={"user": "u1", "item": "i2", "rating": 5})
        of_a_rating = set(next(iter(walks().values())))
        await soon(lambda: of_a_rating <= {stop for _, stop in noted.stops()})  # factors of items follow in pauses
        seen = await client.get("/users/u1/ratings", params={"wait_for": answer.json()["stream_id"], "n": 1})
        assert seen.json()["ratings"][0]["item"] == "i2"
        of_rating = noted.taken()
        listed = await client.get("/recommend/u1", params={"n": 3})
        assert listed.json()["personalized"]
        noted.is_on = False
    listener.close()
    return dict(zip(walks(), (of_rating, noted.taken()), strict=True))


@pytest.mark.parametrize("name", walks())
def test_each_function_is_called_in_its_turn(calls: dict[str, list[tuple[str, Stop]]], name: str) -> None:
    stops = walks()[name]
    assert set(stops) <= {stop for _, stop in calls[name]}, name
    for thread in {thread for thread, _ in calls[name]}:
        order = [stop for its_thread, stop in calls[name] if its_thread == thread and stop in stops]
        assert order == [stop for stop in stops if stop in order], thread
