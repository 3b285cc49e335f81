"""Measures one step, and searches for the highest rate at which the service keeps up."""

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
from loadtest.driver import percentiles_ms, send
from loadtest.freshness import Probes, catch_up_s
from loadtest.retrain import Retrains
from loadtest.stalls import Stalls
from loadtest.workload import FEED, WRITES_OF, Plan, Population

RETRAIN = "retrain"  # the workload with trainings during the requests
KEEPS_UP_MS = 100.0  # milliseconds; highest p99 of requests and freshness of a service that keeps up
KEEPS_UP_S = 0.5  # seconds; longest lag of learning at the end of a step of a service that keeps up
FIRST_PER_S, MAX_PER_S = 100.0, 100_000.0  # requests per second at the start and the end of the search
N_HALVINGS = 3
PAUSE_S, MAX_PAUSES = 1.0, 60  # seconds, and number of pauses while the service recovers
ANSWERS_AT_ONCE_S = 0.1  # seconds; a service that answers within them has recovered

Step = dict[str, Any]


@dataclass(frozen=True)
class Steps:
    """Steps of one workload against one service.

    Attributes:
        model: the algorithm to train in workloads with trainings.
        seed: seed of the first step; each further step adds 1.
        ratings_per_s: see `Plan`.
        crowd: the processes that send; None: this process.
        read_ms: highest p99 of reads of a service that keeps up.
        first_per_s: first rate of the search.
        stalls: shows how long the machine itself stops; None: it is not looked at.
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
    stalls: Stalls | None = None

    @property
    def has_writes(self) -> bool:
        """Whether the workload has ratings, whose freshness can be measured."""
        return self.workload == FEED or WRITES_OF[self.workload] > 0

    async def step(self, rate_per_s: float, seconds: float, number: int = 0) -> Step:
        """Offer `rate_per_s` requests per second; measure freshness if there are writes, and train in `retrain`."""
        others, probed = self.population.halves
        plan = Plan(self.workload, rate_per_s, seconds, self.seed + number, self.ratings_per_s)
        probes, retrains = Probes(self.client, probed.users), Retrains(self.client, self.model)
        background: list[Awaitable[None]] = []
        if self.has_writes:
            background.append(probes.run(seconds))
        if self.workload == RETRAIN:
            background.append(retrains.run(seconds))
        before = await gauges.read(self.client)
        if self.stalls is not None:
            self.stalls.begin()
        driving = self.crowd.drive(plan) if self.crowd else send(self.client, others, plan)
        driven, _ = await asyncio.gather(driving, asyncio.gather(*background))
        step: Step = {"rate_per_s": round(rate_per_s, 1)} | driven.summary()
        if self.stalls is not None:
            step["machine_late_ms"] = percentiles_ms(self.stalls.end())
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
        """Wait until the service answers at once again, so that this step does not affect the next one."""
        for _ in range(MAX_PAUSES):
            await asyncio.sleep(PAUSE_S)
            asked = time.perf_counter()
            answer = await self.client.get("/health/ready")
            if answer.status == 200 and time.perf_counter() - asked < ANSWERS_AT_ONCE_S:
                return
        raise SystemExit("loadtest: the service does not recover")

    async def maximum(self, seconds: float) -> tuple[float, list[Step]]:
        """The highest rate at which the service keeps up, and the steps of the search."""

        async def measured(rate: float, number: int) -> Step:
            return await self.step(rate, seconds, number)

        return await search(measured, self.read_ms, self.first_per_s)


async def search(
    step: Callable[[float, int], Awaitable[Step]], read_ms: float = KEEPS_UP_MS, first_per_s: float = FIRST_PER_S
) -> tuple[float, list[Step]]:
    """Double the rate until the service does not keep up, then bisect. Measures by `step(rate, number)`."""
    steps: list[Step] = []

    async def is_kept(rate: float) -> bool:
        steps.append(await step(rate, len(steps)))
        return keeps_up(steps[-1], read_ms)

    best, rate = 0.0, first_per_s
    while rate <= MAX_PER_S and await is_kept(rate):
        best, rate = rate, 2 * rate
    for _ in range(N_HALVINGS):
        middle = (best * rate) ** 0.5 if best else rate / 2
        if await is_kept(middle):
            best = middle
        else:
            rate = middle
    return best, steps


def keeps_up(step: Step, read_ms: float = KEEPS_UP_MS) -> bool:
    """Whether all answers were good and in time, reads within `read_ms`, and learning did not lag."""
    kinds = step["kinds"]
    are_good = all(200 <= int(status) < 300 for kind in kinds.values() for status in kind["statuses"])
    times = [(kind["latency_ms"], read_ms if name == "read" else KEEPS_UP_MS) for name, kind in kinds.items()]
    times += [(step["freshness"]["ms"], KEEPS_UP_MS)] if "freshness" in step else []
    in_time = all(found.get("p99", limit_ms + 1) <= limit_ms for found, limit_ms in times)
    lag_s = step.get("catch_up_s", 0.0)
    return are_good and in_time and lag_s is not None and lag_s <= KEEPS_UP_S
