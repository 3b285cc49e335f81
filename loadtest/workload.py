"""Workloads: seeded arrivals of reads and writes over a population of users and items."""

from __future__ import annotations

import csv
import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

WRITES_OF = {
    "read": 0.0,
    "write": 1.0,
    "mixed": 0.5,
    "retrain": 0.5,
    "feed": 0.0,
}  # share of writes in requests
FEED = "feed"  # the workload in which ratings come in at their own rate, independent of the reads
FEED_BATCH = 100  # ratings per request: at 10,000 a second one request every 10 ms
IN_TIME_S = 0.1  # seconds; connections are opened for answers that take this long: more in a step cost it time
N_READ = 10
RATINGS = (1.0, 2.0, 3.0, 4.0, 5.0)
SKEW = 0.8  # users and items are drawn with probability 1 / rank ** SKEW: a few are busy, most are not
HEADERS = {"user", "user_id", "userid"}
N_USERS, N_ITEMS, RATED_BY_USER, N_TASTES = 2000, 1000, (10, 100), 5  # of the synthetic ratings


class Arrival(NamedTuple):
    """One request: its due time in seconds from the start, its kind, path and body."""

    due_s: float
    kind: str
    path: str
    body: object


class Plan(NamedTuple):
    """The requests of one step.

    Attributes:
        workload: a key of `WRITES_OF`.
        rate_per_s: requests per second; in `FEED` reads per second.
        seconds: duration.
        seed: equal seeds give equal requests at equal times.
        ratings_per_s: in `FEED`, ratings per second, posted in batches of `FEED_BATCH` in addition to the reads.
    """

    workload: str
    rate_per_s: float
    seconds: float
    seed: int | tuple[int, ...]
    ratings_per_s: float = 0.0

    @property
    def n_connections(self) -> int:
        """Connections to open before the first request; a service slower than `IN_TIME_S` needs more."""
        return math.ceil(IN_TIME_S * (self.rate_per_s + self.ratings_per_s / FEED_BATCH))

    def share(self, number: int, n: int) -> Plan:
        """Part `number` of `n` equal parts, which several drivers can send at the same time."""
        seed = (*(self.seed if isinstance(self.seed, tuple) else (self.seed,)), number)
        return self._replace(rate_per_s=self.rate_per_s / n, seed=seed, ratings_per_s=self.ratings_per_s / n)


@dataclass(frozen=True)
class Population:
    """The users and items of requests, busiest first."""

    users: list[str]
    items: list[str]

    @classmethod
    def of_file(cls, path: Path) -> Population:
        """Users and items of a CSV or TSV file (user, item, …), with or without a header, by number of ratings."""
        with path.open(encoding="utf-8", newline="") as file:
            separator = "\t" if "\t" in file.readline() else ","
            file.seek(0)
            rows = [row for row in csv.reader(file, delimiter=separator) if row and row[0].lower() not in HEADERS]
        return cls(_by_count([row[0] for row in rows]), _by_count([row[1] for row in rows]))

    @property
    def halves(self) -> tuple[Population, Population]:
        """(the busier half of the users, the other one), both with all items."""
        half = len(self.users) // 2
        return Population(self.users[:half], self.items), Population(self.users[half:], self.items)


def arrivals(
    population: Population,
    workload: str,
    rate_per_s: float,
    seconds: float,
    seed: int | tuple[int, ...],
    ratings_per_s: float = 0.0,
) -> Iterator[Arrival]:
    """Poisson arrivals of the requests of a `Plan` with these arguments, in order of time."""
    plan = Plan(workload, rate_per_s, seconds, seed, ratings_per_s)
    requests = _requests(population, plan)
    if plan.workload != FEED or not plan.ratings_per_s:
        return requests
    return heapq.merge(requests, _batches(population, plan), key=lambda arrival: arrival.due_s)


def _requests(population: Population, plan: Plan) -> Iterator[Arrival]:
    rng = np.random.default_rng(plan.seed)
    users, items = _draws(rng, len(population.users)), _draws(rng, len(population.items))
    for due_s in _moments(rng, plan.rate_per_s, plan.seconds):
        user = population.users[next(users)]
        if rng.random() < WRITES_OF[plan.workload]:
            rating = {"user": user, "item": population.items[next(items)], "rating": float(rng.choice(RATINGS))}
            yield Arrival(due_s, "write", "/ratings", rating)
        else:
            yield Arrival(due_s, "read", f"/recommend/{quote(user, safe='')}?n={N_READ}", None)


def _batches(population: Population, plan: Plan) -> Iterator[Arrival]:
    rng = np.random.default_rng(plan.seed)
    rng = rng.spawn(1)[0]  # independent of the draws of the reads
    users, items = _draws(rng, len(population.users)), _draws(rng, len(population.items))
    for due_s in _moments(rng, plan.ratings_per_s / FEED_BATCH, plan.seconds):
        batch = [
            {"user": population.users[next(users)], "item": population.items[next(items)], "rating": rating}
            for rating in rng.choice(RATINGS, FEED_BATCH).tolist()
        ]
        yield Arrival(due_s, "write", "/ratings", batch)


def _moments(rng: np.random.Generator, rate_per_s: float, seconds: float) -> Iterator[float]:
    due_s = 0.0
    while (due_s := due_s + rng.exponential(1 / rate_per_s)) < seconds:
        yield due_s


def write_synthetic(path: Path) -> None:
    """Write synthetic ratings, always the same, for a service without data.

    Users of each taste meet its items more often and like them, so that a model of them is good enough to go live.
    """
    rng = np.random.default_rng(0)
    items = _draws(rng, N_ITEMS)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("user", "item", "rating"))
        for user in range(N_USERS):
            own = user % N_TASTES
            for item in {_met(next(items), own, rng) for _ in range(rng.integers(*RATED_BY_USER))}:
                rating = rng.choice(RATINGS) if item % N_TASTES != own else max(RATINGS)
                rows.writerow((f"synthetic-user-{user}", f"synthetic-item-{item}", rating))


def _met(item: int, taste: int, rng: np.random.Generator) -> int:
    """With equal odds `item`, or an item of this taste that is about as popular."""
    return item if rng.random() < 0.5 else item - item % N_TASTES + taste


def _draws(rng: np.random.Generator, n: int) -> Iterator[int]:
    weights = np.cumsum(1 / np.arange(1, n + 1) ** SKEW)
    while True:
        yield from np.searchsorted(weights, rng.random(4096) * weights[-1]).tolist()


def _by_count(ids: list[str]) -> list[str]:
    names, counts = np.unique(ids, return_counts=True)
    return [str(name) for name in names[np.argsort(-counts, kind="stable")]]
