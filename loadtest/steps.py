"""One measured step, and the search for the highest rate at which the service keeps up."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from loadtest import gauges
from loadtest.client import Client
from loadtest.crowd import Crowd
from loadtest.driver import send
from loadtest.freshness import Probes, catch_up_s
from loadtest.retrain import Retrains
from loadtest.workload import FEED, WRITES_OF, Plan, Population

RETRAIN = "retrain"  # the workload in which trainings run beside
KEEPS_UP_MS = 100.0  # p99 of every kind of request and of freshness,
KEEPS_UP_S = 0.5  # and the time that learning lags behind in the end, up to which a service keeps up
FIRST_PER_S, MOST_PER_S = 100.0, 100_000.0
N_HALVINGS = 3
PAUSE_S, MOST_PAUSES = 1.0, 60
ANSWERS_AT_ONCE_S = 0.1

Step = dict[str, Any]


@dataclass(frozen=True)
class Steps:
    """Steps of one workload against one service.

    Attributes:
        model: what is trained where the workload has trainings.
        seed: of the first step; every further one has the next.
        ratings_per_s: see `Plan`.
        crowd: who sends; None: this process.
        read_ms: p99 of reads up to which a service keeps up.
        first_per_s: rate at which the search begins.
    """

    client: Client
    population: Population
    workload: str
    model: str
    seed: int
    ratings_per_s: float = 0.0
    crowd: Crowd | None = None
    read_ms: float = KEEPS_UP_MS
    first_per_s: float = FIRST_PER_S

    @property
    def has_writes(self) -> bool:
        """Whether there are ratings whose freshness can be told."""
        return self.workload == FEED or WRITES_OF[self.workload] > 0

    async def step(self, rate_per_s: float, seconds: float, number: int = 0) -> Step:
        """Offer so many requests a second; with freshness where there are writes, trainings where they belong."""
        others, probed = self.population.halves
        plan = Plan(self.workload, rate_per_s, seconds, self.seed + number, self.ratings_per_s)
        probes, retrains = Probes(self.client, probed.users), Retrains(self.client, self.model)
        beside: list[Awaitable[None]] = []
        if self.has_writes:
            beside.append(probes.run(seconds))
        if self.workload == RETRAIN:
            beside.append(retrains.run(seconds))
        before = await gauges.read(self.client)
        driving = self.crowd.drive(plan) if self.crowd else send(self.client, others, plan)
        driven, _ = await asyncio.gather(driving, asyncio.gather(*beside))
        step: Step = {"rate_per_s": round(rate_per_s, 1)} | driven.summary()
        step["service"] = before.until(await gauges.read(self.client))
        if self.has_writes:
            step["freshness"] = probes.summary()
            step["catch_up_s"] = await catch_up_s(self.client, probed.users[0], others.items[0])
        if self.workload == RETRAIN:
            step["retrains"] = retrains.summary()
        print(json.dumps({"workload": self.workload} | step), flush=True)
        await self._recovered()
        return step

    async def _recovered(self) -> None:
        """Wait until the service answers at once again: the next step must not pay for this one."""
        for _ in range(MOST_PAUSES):
            await asyncio.sleep(PAUSE_S)
            asked = time.perf_counter()
            answer = await self.client.get("/health/ready")
            if answer.status == 200 and time.perf_counter() - asked < ANSWERS_AT_ONCE_S:
                return
        raise SystemExit("loadtest: the service does not recover")

    async def maximum(self, seconds: float) -> tuple[float, list[Step]]:
        """The highest rate at which the service keeps up, and the steps that found it."""

        async def measured(rate: float, number: int) -> Step:
            return await self.step(rate, seconds, number)

        return await search(measured, self.read_ms, self.first_per_s)


async def search(
    step: Callable[[float, int], Awaitable[Step]], read_ms: float = KEEPS_UP_MS, first_per_s: float = FIRST_PER_S
) -> tuple[float, list[Step]]:
    """Double the rate until the service does not keep up, then halve the distance, in steps of `step(rate, number)`."""
    steps: list[Step] = []

    async def is_kept(rate: float) -> bool:
        steps.append(await step(rate, len(steps)))
        return keeps_up(steps[-1], read_ms)

    best, rate = 0.0, first_per_s
    while rate <= MOST_PER_S and await is_kept(rate):
        best, rate = rate, 2 * rate
    for _ in range(N_HALVINGS):
        middle = (best * rate) ** 0.5 if best else rate / 2
        if await is_kept(middle):
            best = middle
        else:
            rate = middle
    return best, steps


def keeps_up(step: Step, read_ms: float = KEEPS_UP_MS) -> bool:
    """Whether every answer was good and in time, reads within `read_ms`, and learning not behind."""
    kinds = step["kinds"]
    are_good = all(200 <= int(status) < 300 for kind in kinds.values() for status in kind["statuses"])
    times = [(kind["latency_ms"], read_ms if name == "read" else KEEPS_UP_MS) for name, kind in kinds.items()]
    times += [(step["freshness"]["ms"], KEEPS_UP_MS)] if "freshness" in step else []
    in_time = all(found.get("p99", limit_ms + 1) <= limit_ms for found, limit_ms in times)
    lag_s = step.get("catch_up_s", 0.0)
    return are_good and in_time and lag_s is not None and lag_s <= KEEPS_UP_S
