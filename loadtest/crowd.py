"""Drivers in processes of their own, for rates at which one would be late: each sends its share of the arrivals.

Poisson arrivals of several drivers together are Poisson arrivals of the sum of their rates.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import uvloop

from loadtest.client import Client
from loadtest.driver import Driven, send
from loadtest.workload import Plan, Population

START_S = 0.1  # that each of the first tasks takes, so that no process takes two of them


class _Driver(NamedTuple):
    """One process: its loop keeps the connections from one plan to the next."""

    loop: asyncio.AbstractEventLoop
    client: Client
    population: Population


class Crowd:
    """Processes that wait to be told what to send."""

    def __init__(self, n_drivers: int, url: str, key: str | None, population: Population) -> None:
        """Start `n_drivers`, which speak of `population`; returns when all are there."""
        spawn = multiprocessing.get_context("spawn")
        self._n_drivers = n_drivers
        self._pool = ProcessPoolExecutor(n_drivers, spawn, _begin, (url, key, population))
        started = [self._pool.submit(time.sleep, START_S) for _ in range(n_drivers)]
        for one in started:
            one.result()

    async def drive(self, plan: Plan) -> Driven:
        """Send what `plan` asks for, all drivers together."""
        loop = asyncio.get_running_loop()
        shares = [plan.share(number, self._n_drivers) for number in range(self._n_drivers)]
        parts = await asyncio.gather(*(loop.run_in_executor(self._pool, _drive, share) for share in shares))
        return Driven.joined(parts)

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown()


_drivers: list[_Driver] = []  # one, in a process of a crowd


def _begin(url: str, key: str | None, population: Population) -> None:
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    _drivers.append(_Driver(loop, Client(url, key), population))
    gc.freeze()  # looking through so many ids would hold requests up for up to a tenth of a second


def _drive(plan: Plan) -> Driven:
    loop, client, population = _drivers[0]
    return loop.run_until_complete(send(client, population, plan))
