"""A service as a real process on a loopback port, for tests from end to end."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import redis

from service.storage.redis_server import RedisServer
from tests.service.waiting import eventually

READY = re.compile(r"nearfield is ready on (\S+)")
READY_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0


class Service:
    """`nearfield serve` on a free port over a folder that outlives it."""

    def __init__(self, data: Path, **settings: object) -> None:
        self.data = data
        self._environment = {f"NEARFIELD_{name.upper()}": str(value) for name, value in settings.items()}
        self.start()

    def start(self) -> None:
        self.errors = self.data.with_suffix(".stderr")
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service.cli", "serve", "--port", "0", "--data", str(self.data)],
                env=os.environ | self._environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()
        self.client = httpx.Client(base_url=self._address(), timeout=30)

    def _collect(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

    def _address(self) -> str:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            line = self._lines.get(timeout=max(deadline - time.monotonic(), 0.001))
            if not line:
                raise AssertionError(f"serve ended with {self.process.wait()}: {self.errors.read_text()[-4000:]}")
            if found := READY.search(line):
                return found[1]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal the process and return its exit status."""
        self.client.close()
        self.process.send_signal(number)
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join()

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
        answer = self.client.post("/ratings", json=[{"user": u, "item": i, "rating": r} for u, i, r in triples])
        assert answer.status_code == 202, answer.text
        assert answer.json()["accepted"] == len(triples)
        return answer.json()["stream_id"]

    def finished_job(self, job: dict[str, object]) -> dict[str, Any]:
        """The job once it has ended."""

        def ended() -> Any:
            found = self.get(f"/admin/jobs/{job['id']}").json()
            return None if found["state"] in ("queued", "running", "activating") else found

        return eventually(ended)

    def retrain(self, algorithm: str, **params: object) -> dict[str, object]:
        """Retrain and wait for the end."""
        answer = self.client.post("/admin/retrain", json={"algorithm": algorithm, "params": params})
        assert answer.status_code == 202, answer.text
        return self.finished_job(answer.json())
