"""`python -m benchmarks topn`: milliseconds of a batch of exact lists; on the host also of the package `implicit`.

Factors are random: normal with a standard deviation of 1/8. A call starts with parameters and ratings of users in host
memory and ends with lists there. The items are uploaded before. Compared programs alternate.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import gpu
from benchmarks import als_peer
from gpu.model import Model
from gpu.params import AlsParams, CulshParams
from gpu.ranking import topn
from gpu.ranking.eligible import Eligible
from gpu.ranking.item_index import ItemIndex
from gpu.ratings import Rows

N_USERS, CHUNK = 1024, 1 << 18
WARM_UP, ROUNDS, BUDGET_S = 2, 4, 1.0
READ = 2.93e12  # bytes per second of an H100, measured by a copy
PER_READ = 64  # users per read of the items
PIECE, BOUND = 64, 8  # bytes: a factor takes one, in pieces, and an item has a bound


@dataclass(frozen=True)
class Shape:
    """Problem size: catalog, lists, the rated items of each user, which stay out of the lists, and the share of random
    items that pass the filter of all users; 1 for no filter.
    """

    items: int
    users: int
    n: int
    factors: int
    neighbors: int
    rated: int
    eligible: float


@dataclass(frozen=True)
class Time(Shape):
    """Median, least and most milliseconds of a call, and on devices the time to read what a scan reads."""

    code: str
    ms: float
    least_ms: float
    most_ms: float
    users_per_s: float
    floor_ms: float


def run(shapes: Sequence[Shape], backend: gpu.Backend, devices: tuple[int, ...] = ()) -> Iterator[Time]:
    """Measure every shape, on the backend and where `devices` share the items. Consecutive shapes with the same catalog
    share an index.
    """
    backends: dict[str, gpu.Backend] = {backend.name: backend}
    if devices:
        backends["devices " + ",".join(map(str, devices))] = dataclasses.replace(backend, ranking_devices=devices)
    peer = als_peer.installed() if backend.name == "host" else None
    indices: dict[str, ItemIndex] = {}
    catalog = None
    for shape in shapes:
        if catalog != (shape.items, shape.factors, shape.neighbors):
            catalog = shape.items, shape.factors, shape.neighbors
            indices.clear()  # frees memory before the next upload
            model = model_of(shape)
            indices |= {code: ItemIndex(model, one) for code, one in backends.items()}
        rows = ratings_of(shape)
        calls: dict[str, Callable[[], Any]] = {code: _ours(index, rows, shape) for code, index in indices.items()}
        if peer is not None and not shape.neighbors and shape.eligible == 1:
            calls["implicit"] = _theirs(peer, indices[backend.name].model, rows, shape.n)
        yield from _times(calls, shape)


def model_of(shape: Shape) -> Model:
    """A model with random factors, and random neighbors and weights if the shape has neighbors."""
    rng, plain = np.random.default_rng(0), AlsParams(n_factors=shape.factors)
    params = CulshParams(n_factors=shape.factors, n_neighbors=shape.neighbors) if shape.neighbors else plain
    model = Model.zeros(params, 0.0, (0.0, 1.0), N_USERS, shape.items)
    for first in range(0, shape.items, CHUNK):
        part = model.item_factors[first : first + CHUNK]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32) / 8
        slots = len(part), shape.neighbors
        model.neighbors[first : first + CHUNK] = rng.integers(0, shape.items, slots)
        model.explicit_weights[first : first + CHUNK] = rng.standard_normal(slots, dtype=np.float32) / 8
        model.implicit_weights[first : first + CHUNK] = rng.standard_normal(slots, dtype=np.float32) / 8
    model.user_factors[:] = rng.standard_normal(model.user_factors.shape, dtype=np.float32) / 8
    return model


def ratings_of(shape: Shape) -> Rows:
    """Random rated items of each user, ascending."""
    rng = np.random.default_rng(1)
    lists = [np.unique(rng.integers(0, shape.items, shape.rated)) for _ in range(shape.users)]
    lengths = np.array([len(items) for items in lists], dtype=np.int64)
    items = np.concatenate(lists).astype(np.int32)
    return Rows(np.cumsum(lengths) - lengths, lengths, items, rng.random(len(items), dtype=np.float32))


def _ours(index: ItemIndex, rows: Rows, shape: Shape) -> Callable[[], Any]:
    users, mask = np.arange(shape.users) % N_USERS, np.random.default_rng(2).random(shape.items) < shape.eligible
    eligible = None if shape.eligible == 1 else [Eligible.of(mask)] * shape.users
    return lambda: topn.recommend(index, topn.users_of(index.model, users), rows, shape.n, eligible=eligible)


def _theirs(module: ModuleType, model: Model, rows: Rows, n: int) -> Callable[[], Any]:
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - only if the peer is installed

    theirs = module.AlternatingLeastSquares(
        factors=model.params.width, num_threads=len(os.sched_getaffinity(0)), random_state=0
    )
    theirs.item_factors, theirs.user_factors = model.item_factors, model.user_factors
    users, bounds = np.arange(len(rows.starts)) % N_USERS, np.append(rows.starts, len(rows.items))
    rated = csr_matrix((rows.values, rows.items, bounds), shape=(len(users), model.n_items))
    return lambda: theirs.recommend(users, rated, N=n, filter_already_liked_items=True)


def _times(calls: dict[str, Callable[[], Any]], shape: Shape) -> Iterator[Time]:
    """Alternate rounds of consecutive calls, because idle threads of one program may spin and slow down the other."""
    times_s: dict[str, list[float]] = {code: [] for code in calls}
    for _ in range(ROUNDS):
        for code, call in calls.items():
            for _ in range(WARM_UP):
                call()
            until = time.perf_counter() + BUDGET_S / ROUNDS
            while not times_s[code] or time.perf_counter() < until:
                began = time.perf_counter()
                call()
                times_s[code].append(time.perf_counter() - began)
    reads = -(-shape.users // PER_READ)
    floor_ms = 1e3 * reads * (-(-shape.factors // PIECE) * PIECE + BOUND) * shape.items / READ
    for code, seconds in times_s.items():
        ms = [1e3 * one for one in seconds]
        median = statistics.median(ms)
        named = code.removeprefix("devices ").split(",")  # a call on one device has the name of the backend
        floor = floor_ms / len(set(named)) if code.startswith("device") else float("nan")
        columns = {**dataclasses.asdict(shape), "code": code, "users_per_s": 1e3 * shape.users / median}
        yield Time(**columns, ms=median, least_ms=min(ms), most_ms=max(ms), floor_ms=floor)
