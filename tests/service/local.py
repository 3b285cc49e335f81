"""The application in this process, with real Redis and all threads, for tests of what HTTP answers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from service.api.app import application
from service.processes.endpoint import Endpoint
from service.processes.local_serving import LocalServing
from service.processes.parts import parts
from service.processes.remote_serving import RemoteServing
from service.processes.runtime import Runtime
from service.settings.settings import Settings
from service.storage.remote_archiver import RemoteArchiver
from service.storage.streams.redis_server import runtime_folder
from tests.service.waiting import eventually


class Local:
    """A client of an application whose loop runs in a thread; a `front` has the connection of a front process."""

    def __init__(self, data: Path, *, front: bool = False, **settings: Any) -> None:
        self.runtime = Runtime(Settings(data=data, **settings))
        self._endpoint = self._front = None
        if front:
            path = runtime_folder(data) / "engine.sock"
            self._endpoint = Endpoint(self.runtime, RemoteArchiver(), path)
            self._front = RemoteServing(self.runtime.settings, path, "front-1")
        self.app = application(self._front or LocalServing(self.runtime), extras=parts().routes)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-loop")
        self._thread.start()
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        self.headers = self._client.headers

    def __enter__(self) -> Local:
        self._run(self._start())
        return self

    def __exit__(self, *raised: object) -> None:
        self._run(self._stop())
        self.close()

    async def _start(self) -> None:
        await self.runtime.start()
        if self._endpoint and self._front:
            await self._endpoint.start()
            self._front.start()

    async def _stop(self) -> None:
        if self._endpoint and self._front:
            await self._front.stop()
            await self._endpoint.stop()
        await self.runtime.stop()

    def close(self) -> None:
        """End the thread of a service that could not be started."""
        self._run(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def request(self, method: str, path: str, **options) -> httpx.Response:
        return self._run(self._client.request(method, path, **options))

    def get(self, path: str, **parameters: object) -> httpx.Response:
        return self.request("GET", path, params=parameters or None)

    def post(self, path: str, document: object) -> httpx.Response:
        return self.request("POST", path, json=document)

    def rate(self, *triples: tuple[str, str, float]) -> str:
        """Post ratings and return their stream id."""
        answer = self.post("/ratings", [{"user": u, "item": i, "rating": r} for u, i, r in triples])
        assert answer.status_code == 202, answer.text
        return answer.json()["stream_id"]


@contextlib.contextmanager
def serving(data: Path, **settings: Any) -> Iterator[Local]:
    """A client of a ready service over `data`."""
    with Local(data, **settings) as local:
        eventually(lambda: local.get("/health/ready").status_code == 200)
        yield local
