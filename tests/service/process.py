"""A service as a real process on a loopback port, for tests from end to end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import redis

from service.cli.client import Client
from service.cli.service_process import NotStarted, ServiceProcess
from service.storage.streams.redis_server import RedisServer


class Service:
    """`nearfield serve` on a free port over a folder that outlives it."""

    def __init__(self, data: Path, **settings: object) -> None:
        self.data = data
        self._environment: dict[str, str] = {}
        self.set(**settings)
        self.start()

    def set(self, **settings: object) -> None:
        """Change settings for the next start."""
        self._environment |= {f"NEARFIELD_{name.upper()}": str(value) for name, value in settings.items()}

    def start(self) -> None:
        self.errors = self.data.with_suffix(".stderr")
        with self.errors.open("ab") as errors:
            self._process = ServiceProcess(self.data, environment=self._environment, log=errors)
        try:
            self.api = Client(self._process.address())
        except NotStarted as error:
            self._process.stop(signal.SIGKILL)
            raise AssertionError(f"{error}: {self.errors.read_text()[-4000:]}") from None
        self.client = self.api.http

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self._process.child

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal the process and return its exit status."""
        self.client.close()
        return self._process.stop(number)

    def kill(self) -> None:
        """End it the hard way, whatever state it is in, and the embedded server that it leaves behind."""
        with contextlib.suppress(ProcessLookupError):
            self.stop(signal.SIGKILL)
        with contextlib.suppress(redis.ConnectionError), redis.Redis.from_url(RedisServer(self.data).url) as server:
            server.shutdown(nosave=True)

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        return self.client.get(path, params=parameters)

    def rate(self, *triples: tuple[str, str, float]) -> str:
        """Post ratings and return their stream id."""
        answer = self.api.rate([{"user": u, "item": i, "rating": r} for u, i, r in triples])
        assert answer["accepted"] == len(triples)
        return answer["stream_id"]

    def retrain(self, algorithm: str, **params: object) -> dict[str, Any]:
        """The job of a training that has ended, well or not."""
        return self.api.ended_job(self.api.start_training(algorithm, params)["id"])
