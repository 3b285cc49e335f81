"""The application in this process, with real Redis and all threads, for tests of what HTTP answers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from service.api.app import Application, application
from service.processes.archiver_process import ArchiverProcess
from service.processes.endpoint import Endpoint
from service.processes.front_serving import FrontServing
from service.processes.link import by_socket
from service.processes.parts import parts
from service.processes.runtime import Runtime
from service.settings.settings import Settings
from service.storage.archive_lock import MARK
from service.storage.files import FileLock
from service.storage.streams.redis_server import runtime_folder
from tests.service.waiting import eventually, learned


class Local:
    """A client of an application whose loop runs in a thread: a front, the engine's parts and those of the archiver."""

    def __init__(self, data: Path, **settings: Any) -> None:
        self.runtime = Runtime(Settings(data=data, **settings))
        path = runtime_folder(data) / "engine.sock"
        self.endpoint = Endpoint(self.runtime, path)
        self.archiver = None if self.runtime.settings.store else ArchiverProcess(self.runtime.settings, path)
        self._front = FrontServing(self.runtime.settings, by_socket(path), "front-1")
        self.app = application(self._front, extras=parts().routes)
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
        await self.endpoint.start()
        if self.archiver is not None:
            self.archiver.start()
        self._front.start()

    async def _stop(self) -> None:
        """Stop in the order of a parent."""
        await self._front.stop()
        if self.archiver is not None:
            await self.archiver.stop()
        await self.endpoint.stop()
        await self.runtime.archive_rest()
        await self.runtime.stop()

    def is_archiving(self) -> bool:
        """Whether a process holds the log, which with a store is a worker elsewhere."""
        folder = self.runtime.settings.data / "ratings"
        if self.archiver is not None:
            with contextlib.suppress(FileNotFoundError):  # the log is being made
                if (mark := FileLock.try_take(folder / MARK, shared=True)) is not None:
                    mark.release()
                return mark is None
        return self.archiver is None

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
        """As `request`, but patient about `wait_for`."""
        return learned(lambda: self.request("GET", path, params=parameters or None))

    def post(self, path: str, document: object) -> httpx.Response:
        """As `request`, but patient about `wait_for`."""
        return learned(lambda: self.request("POST", path, json=document))

    def retrain(self, algorithm: str, **body: Any) -> dict[str, Any]:
        """The job of a training that has ended, well or not."""
        answer = self.post("/admin/retrain", {"algorithm": algorithm, **body})
        assert answer.status_code == 202, answer.text
        return self.ended_job(answer.json()["id"])

    def ended_job(self, job: str) -> dict[str, Any]:
        """A job that has ended, well or not."""

        def now() -> dict[str, Any] | None:
            found = self.get(f"/admin/jobs/{job}").json()
            return found if found["state"] in ("succeeded", "failed", "cancelled") else None

        return eventually(now)

    def rate(self, *triples: tuple[str, str, float]) -> str:
        """Post ratings and return their stream id."""
        answer = self.post("/ratings", [{"user": u, "item": i, "rating": r} for u, i, r in triples])
        assert answer.status_code == 202, answer.text
        return answer.json()["stream_id"]


def unconnected(settings: Settings) -> Application:
    """The application of a front that never connects to an engine."""
    return application(
        FrontServing(settings, by_socket(settings.data / "engine.sock"), "front-1"), extras=parts().routes
    )


@contextlib.contextmanager
def serving(data: Path, **settings: Any) -> Iterator[Local]:
    """A client of a ready service over `data`."""
    with Local(data, **settings) as local:
        eventually(lambda: local.get("/health/ready").status_code == 200)
        eventually(local.is_archiving)
        yield local
