"""`nearfield bench place`: a model of any size brought to where it answers and learns, without a service around it.

Parameters and ratings are drawn (`service.bench.plant`). A read is a call of 64 users; a lesson is 1,000 changes by as
many users, from the table on the host to factors that the next read ranks by.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu import item_index, topn
from gpu.backend import Backend
from gpu.follower import Follower, place
from gpu.params import Params
from gpu.table import Changes, RatingTable
from service.bench.plant import STARS, drawn_model, ranks
from service.bench.report import say

N_READERS, N_CHANGES, N = 64, 1000, 10
WARM_UP, ROUNDS = 3, 20
CHUNK = 1_000_000  # ratings that are drawn and applied together


@dataclass(frozen=True)
class Row:
    """What was placed, the seconds of that, the gigabytes that it takes, and milliseconds of a read and of a lesson.

    `place_s` includes compiling kernels; `settle_s` copying the ratings to where the model learns.
    """

    algorithm: str
    users: int
    items: int
    factors: int
    neighbours: int
    ratings: int
    model_gb: float
    place_s: float
    settle_s: float
    device_arrays_gb: float
    device_taken_gb: float
    process_gb: float
    read_ms: float
    lesson_ms: float


def run(params: Params, n_users: int, n_items: int, n_ratings: int, backend: Backend) -> Row:
    """Place a model of that size, let it follow so many ratings, and time reads and lessons."""
    rng = np.random.default_rng(0)
    model = drawn_model(params, n_users, n_items, 0)
    model_gb = model.n_bytes / 1e9
    say("parameters drawn")
    table = RatingTable(n_users, n_items)
    for first in range(0, n_ratings, CHUNK):
        _rate(table, rng, np.sort(rng.integers(0, n_users, min(CHUNK, n_ratings - first))), first)
    held = table.n_ratings
    say(f"{held:,} ratings")
    keys = rng.integers(0, 2**63, max(n_users, n_items)).astype(np.uint64)
    item_index.prepare(params.n_factors, backend)
    began = time.perf_counter()
    placed = place(model, table, keys[:n_users], keys[:n_items], backend)
    placed_s = time.perf_counter() - began
    follower = placed.follow(keys[:n_users], keys[:n_items])
    follower.settle()
    settled_s = time.perf_counter() - began - placed_s
    say(f"placed in {placed_s:.1f} s, settled in {settled_s:.1f} s")
    read_ms = _median_ms(lambda: _read(follower, table, rng.integers(0, n_users, N_READERS)))
    positions = iter(range(n_ratings, n_ratings + (WARM_UP + ROUNDS) * N_CHANGES, N_CHANGES))
    lesson_ms = _median_ms(lambda: _learn(follower, table, rng, next(positions)))
    taken = backend.device_bytes()
    return Row(
        params.algorithm, n_users, n_items, params.n_factors, model.neighbours.shape[1], held, model_gb,
        placed_s, settled_s, taken.get("arrays", 0) / 1e9, taken.get("taken", 0) / 1e9,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, read_ms, lesson_ms,
    )  # fmt: skip


def _rate(table: RatingTable, rng: np.random.Generator, users: NDArray[np.int64], first: int) -> Changes:
    """Let each of `users` (B,) rate an item."""
    items = ranks(rng.random(len(users)), table.n_items).astype(np.int64)
    values, positions = rng.choice(STARS, len(users)), np.arange(first, first + len(users))
    return table.apply(users, items, values, np.zeros(len(users)), positions)


def _read(follower: Follower, table: RatingTable, users: NDArray[np.int64]) -> None:
    topn.recommend(follower.index, topn.users_of(follower.model, users), topn.rows_of(table.rows, users), N)


def _learn(follower: Follower, table: RatingTable, rng: np.random.Generator, first: int) -> None:
    users = rng.integers(0, table.n_users, N_CHANGES)
    follower.note(_rate(table, rng, users, first))
    follower.settle()


def _median_ms(call: Callable[[], None]) -> float:
    times = []
    for _ in range(WARM_UP + ROUNDS):
        began = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times[WARM_UP:])
