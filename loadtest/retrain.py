"""Trainings in a row while something else is measured: the worst neighbor that a service has in daily life."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from loadtest.client import Client

POLL_S = 0.25
ENDS = ("succeeded", "failed", "cancelled")


class Retrains:
    """Asks for a full training again and again, the next when the one before has ended."""

    def __init__(self, client: Client, algorithm: str) -> None:
        self._client, self._algorithm = client, algorithm
        self._jobs: list[dict[str, Any]] = []

    async def run(self, seconds: float) -> None:
        """Train for so long; the last training is waited for."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            started = time.perf_counter()
            job = await self._job(await self._client.post("/admin/retrain", {"algorithm": self._algorithm}))
            while job["state"] not in ENDS:
                await asyncio.sleep(POLL_S)
                job = await self._job(await self._client.get(f"/admin/jobs/{job['id']}"))
            kept = {name: job.get(name) for name in ("state", "promoted", "version", "error")}
            self._jobs.append(kept | {"seconds": round(time.perf_counter() - started, 2)})

    async def _job(self, answer: Any) -> dict[str, Any]:
        if answer.status >= 300:
            raise SystemExit(f"loadtest: the service answers {answer.status} to a training: {answer.body.decode()}")
        job: dict[str, Any] = answer.json()
        return job

    def summary(self) -> list[dict[str, Any]]:
        """Every training: how it ended, whether its model went live, and how long it took."""
        return self._jobs
