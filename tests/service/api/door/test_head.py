"""`HEAD` and refused methods, over a socket."""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.service.local import Local, serving


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
