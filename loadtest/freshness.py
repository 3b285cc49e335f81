"""How old an answer can be: the time from the 202 for a rating to the first list that reflects it.

A probe asks for a user's list, rates its first item, and asks again until that item, now seen, is gone.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from urllib.parse import quote

from loadtest.client import Client
from loadtest.driver import drive, percentiles_ms
from loadtest.workload import Population, arrivals

GIVE_UP_S = 10.0
PROBE_RATING = 5.0
PAUSE_S = 0.1  # between two probes


async def measure(
    client: Client, population: Population, writes_per_s: float, reads_per_s: float, seconds: float, seed: int
) -> dict[str, object]:
    """Probe up to ten times a second, beside an open-loop load of reads and writes by other users.

    Returns:
        the rates, the percentiles of freshness in milliseconds, and how many probes never saw their rating.
    """
    half = len(population.users) // 2
    others, probed = Population(population.users[:half], population.items), population.users[half:]
    load = asyncio.gather(
        drive(client, arrivals(others, "write", writes_per_s, seconds, seed)),
        drive(client, arrivals(others, "read", reads_per_s, seconds, seed + 1)),
    )
    ages_s, n_lost, n_requests = await _probe(client, probed, seconds)
    (writes, write_s), (reads, read_s) = await load
    return {
        "writes_per_s": writes_per_s,
        "reads_per_s": reads_per_s,
        "probes": len(ages_s) + n_lost,
        "probes_lost": n_lost,
        "reads_until_fresh": n_requests / max(len(ages_s), 1),
        "freshness_ms": percentiles_ms(ages_s),
        "write": writes["write"].summary(write_s),
        "read": reads["read"].summary(read_s),
    }


async def _probe(client: Client, users: list[str], seconds: float) -> tuple[list[float], int, int]:
    ages_s: list[float] = []
    n_lost = n_requests = 0
    end = time.perf_counter() + seconds
    for user in itertools.cycle(users):
        if time.perf_counter() >= end:
            break
        age_s, n_reads = await _age_of_answer(client, user)
        n_requests += n_reads
        if age_s is None:
            n_lost += 1
        else:
            ages_s.append(age_s)
        await asyncio.sleep(PAUSE_S)
    return ages_s, n_lost, n_requests


async def _age_of_answer(client: Client, user: str) -> tuple[float | None, int]:
    path = f"/recommend/{quote(user, safe='')}?n=10"
    first = (await client.get(path)).json()["items"][0]["item"]
    posted = await client.post("/ratings", {"user": user, "item": first, "rating": PROBE_RATING})
    accepted = time.perf_counter()
    if posted.status != 202:
        return None, 0
    n_reads = 0
    while time.perf_counter() < accepted + GIVE_UP_S:
        answer = await client.get(path)
        n_reads += 1
        if answer.status == 200 and all(line["item"] != first for line in answer.json()["items"]):
            return time.perf_counter() - accepted, n_reads
    return None, n_reads
