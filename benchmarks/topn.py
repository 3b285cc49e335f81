"""`python -m benchmarks topn`: milliseconds of a batch of exact lists; on the host also of the package `implicit`.

Factors are random: normal with a standard deviation of 1/8. A call starts with parameters and ratings of users in host
memory and ends with lists there. The items are uploaded before. Compared programs alternate.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from benchmarks import als, options
from benchmarks.options import Factors, Where
from benchmarks.results import Row, say
from benchmarks.timing import NAN, in_turns, ms_of, timed
from gpu.als.params import AlsParams
from gpu.base.backend import Backend
from gpu.data.model import Model
from gpu.data.ratings import Rows
from gpu.descent.params import CulshParams
from gpu.ranking import topn as ranking
from gpu.ranking.eligible import Eligible
from gpu.ranking.item_index import ItemIndex

N_USERS, CHUNK = 1024, 1 << 18
WARM_UP, ROUNDS, BUDGET_S = 2, 4, 1.0
READ = 2.93e12  # bytes per second of an H100, measured by a copy
PER_READ = 64  # users per read of the items
PIECE, BOUND = 64, 8  # bytes: a factor takes one, in pieces, and an item has a bound


class Shape(NamedTuple):
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


def topn(
    items: Annotated[str, typer.Option(help="Comma-separated sizes of the catalog.")] = "10000,100000,1000000",
    users: Annotated[str, typer.Option(help="Comma-separated numbers of users per call.")] = "1,64,1024",
    n: Annotated[str, typer.Option("--n", help="Comma-separated lengths of the lists.")] = "10",
    factors: Factors = "64",
    neighbors: Annotated[str, typer.Option(help="Comma-separated numbers of neighbors K; 0 for none.")] = "0",
    rated: Annotated[str, typer.Option(help="Comma-separated numbers of rated items per user.")] = "50",
    eligible: Annotated[str, typer.Option(help="Comma-separated shares of items that pass a filter; 1: none.")] = "1",
    backend: Where = "auto",
    devices: Annotated[
        list[str] | None,
        typer.Option(help="Devices that share the items, beside one; 0,0: two parts on one. May be repeated."),
    ] = None,
) -> Iterator[Row]:
    """Milliseconds of a batch of exact lists from random factors; on the host also of `implicit`.

    On devices `floor_ms` is the time to read what a scan reads.
    """
    where = options.chosen(backend)
    if devices and where.name != "device":
        raise typer.BadParameter("--devices needs the backend device")
    backends: dict[str, Backend] = {where.name: where}
    for several in devices or ():
        shared = tuple(options.whole(several))
        backends[f"devices {several}"] = dataclasses.replace(where, ranking_devices=shared)
    peer = als.implicit_als() if where.name == "host" else None
    sizes, others = map(options.whole, (items, factors, neighbors)), map(options.whole, (users, n, rated))
    of_lists = list(itertools.product(*others))
    for n_items, f, k in itertools.product(*sizes):
        model = model_of(n_items, f, k)
        indices = dict[str, ItemIndex]()
        for code, one in backends.items():
            indices[code], seconds = timed(functools.partial(ItemIndex, model, one))
            say(f"{code}: {n_items:,} items laid out after {seconds:.1f} s")
        for (batch, length, history), share in itertools.product(of_lists, options.numbers(eligible)):
            shape = Shape(n_items, batch, length, f, k, history, share)
            rows = ratings_of(shape)
            calls: dict[str, Callable[[], Any]] = {code: _ours(index, rows, shape) for code, index in indices.items()}
            if peer is not None and not k and share == 1:
                calls["implicit"] = _theirs(peer, model, rows, length)
            yield from _times(calls, shape)
        indices.clear()  # frees memory before the next upload


def model_of(n_items: int, n_factors: int, n_neighbors: int) -> Model:
    """A model with random factors, and random neighbors and weights if it has neighbors."""
    plain = AlsParams(n_factors=n_factors)
    params = CulshParams(n_factors=n_factors, n_neighbors=n_neighbors) if n_neighbors else plain
    model = Model.zeros(params, 0.0, (0.0, 1.0), N_USERS, n_items)
    drawn = ("item_factors", "explicit_weights", "implicit_weights")

    def draw(first: int) -> None:
        """Draw the parameters of some items; threads draw others at the same time."""
        rng = np.random.default_rng((0, first))
        for name in drawn:
            part = getattr(model, name)[first : first + CHUNK]
            np.divide(rng.standard_normal(part.shape, dtype=np.float32), 8, out=part)
        neighbors = model.neighbors[first : first + CHUNK]
        neighbors[:] = rng.integers(0, n_items, neighbors.shape)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(draw, range(0, n_items, CHUNK)))
    users = np.random.default_rng(0).standard_normal(model.user_factors.shape, dtype=np.float32)
    model.user_factors[:] = users / 8
    return model


def ratings_of(shape: Shape) -> Rows:
    """Random rated items of each user, ascending."""
    rng = np.random.default_rng(1)
    lists = [np.unique(rng.integers(0, shape.items, shape.rated)) for _ in range(shape.users)]
    lengths, items = np.array([len(own) for own in lists], dtype=np.int64), np.concatenate(lists).astype(np.int32)
    return Rows(np.cumsum(lengths) - lengths, lengths, items, rng.random(len(items), dtype=np.float32))


def _ours(index: ItemIndex, rows: Rows, shape: Shape) -> Callable[[], Any]:
    users, mask = np.arange(shape.users) % N_USERS, np.random.default_rng(2).random(shape.items) < shape.eligible
    eligible = None if shape.eligible == 1 else [Eligible.of(mask)] * shape.users
    return lambda: ranking.recommend(index, ranking.users_of(index.model, users), rows, shape.n, eligible=eligible)


def _theirs(module: ModuleType, model: Model, rows: Rows, n: int) -> Callable[[], Any]:
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - only if the peer is installed

    threads = len(os.sched_getaffinity(0))
    theirs = module.AlternatingLeastSquares(factors=model.params.width, num_threads=threads, random_state=0)
    theirs.item_factors, theirs.user_factors = model.item_factors, model.user_factors
    users, bounds = np.arange(len(rows.starts)) % N_USERS, np.append(rows.starts, len(rows.items))
    rated = csr_matrix((rows.values, rows.items, bounds), shape=(len(users), model.n_items))
    return lambda: theirs.recommend(users, rated, N=n, filter_already_liked_items=True)


def _times(calls: dict[str, Callable[[], Any]], shape: Shape) -> Iterator[Row]:
    """Alternate rounds of consecutive calls, because idle threads of one program may spin and slow down the other."""

    def round_of(call: Callable[[], Any]) -> list[float]:
        for _ in range(WARM_UP):
            call()
        until, taken_ms = time.perf_counter() + BUDGET_S / ROUNDS, [ms_of(call)]
        while time.perf_counter() < until:
            taken_ms.append(ms_of(call))
        return taken_ms

    rounds = in_turns({code: lambda call=call: round_of(call) for code, call in calls.items()}, ROUNDS)  # type: ignore[misc]
    reads = -(-shape.users // PER_READ)
    floor_ms = 1e3 * reads * (-(-shape.factors // PIECE) * PIECE + BOUND) * shape.items / READ
    for code, of_code in rounds.items():
        taken_ms = list(itertools.chain(*of_code))
        n_devices = len(set(code.removeprefix("devices ").split(",")))  # one device has the name of the backend
        floor, ms = floor_ms / n_devices if code.startswith("device") else NAN, statistics.median(taken_ms)
        times = {"ms": ms, "least_ms": min(taken_ms), "most_ms": max(taken_ms)}
        yield {**shape._asdict(), "code": code, **times, "users_per_s": 1e3 * shape.users / ms, "floor_ms": floor}
