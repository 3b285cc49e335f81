"""Runs trainings one after the other during a measurement, because they compete with requests for the machine."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from loadtest.client import Client

POLL_S = 0.25
ENDS = ("succeeded", "failed", "cancelled")


class Retrains:
    """Requests full trainings, each when the previous one has ended."""

    def __init__(self, client: Client, algorithm: str) -> None:
        self._client, self._algorithm = client, algorithm
        self._jobs: list[dict[str, Any]] = []

    async def run(self, seconds: float) -> None:
        """Train for `seconds`, and wait for the end of the last training."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            started = time.perf_counter()
            job = await self._job(await self._client.post("/admin/retrain", {"algorithm": self._algorithm}))
            while job["state"] not in ENDS:
                await asyncio.sleep(POLL_S)
                job = await self._job(await self._client.get(f"/admin/jobs/{job['id']}"))
            fields = {name: job.get(name) for name in ("state", "promoted", "version", "error")}
            self._jobs.append(fields | {"seconds": round(time.perf_counter() - started, 2)})

    async def _job(self, answer: Any) -> dict[str, Any]:
        if answer.status >= 300:
            raise SystemExit(f"loadtest: the service answers {answer.status} to a training: {answer.body.decode()}")
        job: dict[str, Any] = answer.json()
        return job

    def summary(self) -> list[dict[str, Any]]:
        """State, promotion, version, error and seconds of each training."""
        return self._jobs
