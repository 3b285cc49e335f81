"""Several driver processes, for rates that one process cannot send on time. Each sends a share of the arrivals.

The sum of Poisson arrivals of several drivers is again Poisson, with the sum of their rates. All begin together, when
the last one has its connections: to accept thousands of them would delay the requests of those who came first.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

import uvloop

from loadtest.client import Client
from loadtest.driver import Driven, send
from loadtest.workload import Plan, Population

OPEN_S = 120.0  # seconds for the connections of all
START_S = 0.1  # seconds of each first task: long enough that no process takes two of them


class _Driver(NamedTuple):
    """One process; its event loop keeps the connections between plans."""

    loop: asyncio.AbstractEventLoop
    client: Client
    population: Population
    ready: Barrier


class Crowd:
    """Processes that wait for plans."""

    def __init__(self, n_drivers: int, url: str, key: str | None, population: Population) -> None:
        """Start `n_drivers` that request users and items of `population`; return when all run."""
        spawn = multiprocessing.get_context("spawn")
        self._n_drivers = n_drivers
        self._pool = ProcessPoolExecutor(n_drivers, spawn, _begin, (url, key, population, spawn.Barrier(n_drivers)))
        started = [self._pool.submit(time.sleep, START_S) for _ in range(n_drivers)]
        for one in started:
            one.result()

    async def drive(self, plan: Plan) -> Driven:
        """Send the requests of `plan`, divided among all drivers.

        Raises:
            BrokenBarrierError: not all had their connections after `OPEN_S`.
        """
        loop = asyncio.get_running_loop()
        shares = [plan.share(number, self._n_drivers) for number in range(self._n_drivers)]
        parts = await asyncio.gather(*(loop.run_in_executor(self._pool, _drive, share) for share in shares))
        return Driven.joined(parts)

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown()


_drivers: list[_Driver] = []  # one, in a process of a crowd


def _begin(url: str, key: str | None, population: Population, ready: Barrier) -> None:
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    _drivers.append(_Driver(loop, Client(url, key), population, ready))
    gc.freeze()  # a collection that visits all ids would delay requests by up to a tenth of a second


def _drive(plan: Plan) -> Driven:
    loop, client, population, ready = _drivers[0]
    loop.run_until_complete(client.open(plan.n_connections))
    ready.wait(OPEN_S)
    return loop.run_until_complete(send(client, population, plan))
