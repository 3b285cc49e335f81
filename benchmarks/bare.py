"""Bare routes of the service's libraries without the service, as a base of comparison.

`GET /recommend/{user}` answers ten items from memory (Starlette + orjson). `POST /ratings` checks an array of ratings
(msgspec) and appends it to a stream of a Redis with the service's settings. `python -m benchmarks.bare PORT DATA`
starts it as a process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import orjson
import redis.asyncio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.cli.client import Client
from service.storage.streams.redis_server import RedisServer

LIMIT_S = 60.0  # to start and to stop


class Rating(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a rating that the bare route checks."""

    user: str
    item: str
    rating: float
    timestamp: float | None = None


ITEMS = [{"item": str(100 + n), "score": 4.5 - n / 16} for n in range(10)]
RATINGS = msgspec.json.Decoder(list[Rating])
ENCODER = msgspec.json.Encoder()


async def _recommend(request: Request) -> Response:
    answer = {"user": request.path_params["user"], "items": ITEMS}
    return Response(orjson.dumps(answer), media_type="application/json")


async def _ratings(request: Request) -> Response:
    events = RATINGS.decode(await request.body())
    stream_id = await request.app.state.redis.xadd("bare", {"ratings": ENCODER.encode(events)})
    answer = {"accepted": len(events), "stream_id": stream_id.decode()}
    return Response(orjson.dumps(answer), status_code=202, media_type="application/json")


async def _ready(request: Request) -> Response:
    return Response(b"{}", media_type="application/json")


def create_app(data: Path) -> Starlette:
    """The bare application with a durable Redis of its own in `data`."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        server = RedisServer(data)
        server.start()
        app.state.redis = redis.asyncio.Redis.from_url(server.url)
        yield
        await app.state.redis.aclose()
        server.stop()

    routes = [
        Route("/recommend/{user}", _recommend),
        Route("/ratings", _ratings, methods=["POST"]),
        Route("/health/ready", _ready),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


@contextmanager
def serving(data: Path, cores: set[int]) -> Iterator[str]:
    """Run the bare routes and their Redis on `cores` until the block ends; yields their address once they answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.bare", str(port), str(data)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 (our own module, no shell)
    try:
        os.sched_setaffinity(child.pid, cores)
        with Client(f"http://127.0.0.1:{port}") as client:
            client.wait_until_ready(LIMIT_S)
            yield client.address
    finally:
        child.terminate()
        child.wait(LIMIT_S)


if __name__ == "__main__":
    uvicorn.run(create_app(Path(sys.argv[2])), port=int(sys.argv[1]), log_level="warning", access_log=False)
