"""What is asked for, and when: seeded arrivals of reads and writes over a population of users and items."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

WRITES_OF = {"read": 0.0, "write": 1.0, "mixed": 0.5, "retrain": 0.5}  # share of requests that post a rating
N_READ = 10
RATINGS = (1.0, 2.0, 3.0, 4.0, 5.0)
SKEW = 0.8  # users and items are drawn with probability 1 / rank ** SKEW: a few are busy, most are not
HEADERS = {"user", "user_id", "userid"}
N_USERS, N_ITEMS, RATED_BY_USER = 2000, 1000, (10, 100)  # of synthetic ratings


class Arrival(NamedTuple):
    """One request: when it is due, in seconds from the start, and what is sent."""

    due_s: float
    kind: str
    path: str
    body: object


@dataclass(frozen=True)
class Population:
    """The ids that requests speak of, busiest first."""

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


def arrivals(population: Population, workload: str, rate_per_s: float, seconds: float, seed: int) -> Iterator[Arrival]:
    """Poisson arrivals at `rate_per_s` for `seconds`; equal arguments give equal requests at equal times."""
    rng = np.random.default_rng(seed)
    users, items = _draws(rng, len(population.users)), _draws(rng, len(population.items))
    due_s = 0.0
    while (due_s := due_s + rng.exponential(1 / rate_per_s)) < seconds:
        user = population.users[next(users)]
        if rng.random() < WRITES_OF[workload]:
            rating = {"user": user, "item": population.items[next(items)], "rating": float(rng.choice(RATINGS))}
            yield Arrival(due_s, "write", "/ratings", rating)
        else:
            yield Arrival(due_s, "read", f"/recommend/{quote(user, safe='')}?n={N_READ}", None)


def write_synthetic(path: Path) -> None:
    """Write ratings that nobody gave, for a service that has none of its own: always the same."""
    rng = np.random.default_rng(0)
    items = _draws(rng, N_ITEMS)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("user", "item", "rating"))
        for user in range(N_USERS):
            for item in {next(items) for _ in range(rng.integers(*RATED_BY_USER))}:
                rows.writerow((f"synthetic-user-{user}", f"synthetic-item-{item}", rng.choice(RATINGS)))


def _draws(rng: np.random.Generator, n: int) -> Iterator[int]:
    weights = np.cumsum(1 / np.arange(1, n + 1) ** SKEW)
    while True:
        yield from np.searchsorted(weights, rng.random(4096) * weights[-1]).tolist()


def _by_count(ids: list[str]) -> list[str]:
    names, counts = np.unique(ids, return_counts=True)
    return [str(name) for name in names[np.argsort(-counts, kind="stable")]]
