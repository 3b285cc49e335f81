"""`python -m benchmarks online`: time of batches of events that host and device learn online.

A tenth of a batch's users are new; the others are known and drawn in proportion to their ratings. All users of a batch
have equally many ratings. New items get a twentieth of the ratings; known items get the rest in proportion to theirs.
2 % of the ratings change a present rating, and 1 % delete one. The model has random parameters, which do not affect
the time.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

import gpu
from benchmarks import datasets, options
from benchmarks.options import Algorithm, Factors, Source
from benchmarks.plant import drawn_model
from benchmarks.results import Row, say
from benchmarks.timing import ms_of
from gpu.algorithms import params_for
from gpu.base.backend import choose
from gpu.base.errors import InvalidInput
from gpu.data.model import Model
from gpu.data.param_kinds import GradientParams, descending
from gpu.online.model import HostModel

NEW_USERS, NEW_ITEMS_RATINGS, CHANGED, DELETED = 0.1, 0.05, 0.02, 0.01
WARM_UP = 2  # batches that compile kernels and pack arenas; in them the host hashes all items once


class Batch(NamedTuple):
    """Changes in the form of `RatingTable.apply`, and the keys of the new users and items."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    values: NDArray[np.float32]
    positions: NDArray[np.int64]
    user_keys: NDArray[np.uint64]
    item_keys: NDArray[np.uint64]


class Shape(NamedTuple):
    """Size of a batch: ratings, users, new items."""

    batch: int
    users: int
    new_items: int


def online(
    ratings: Source,
    algorithm: Algorithm = "culsh",
    factors: Factors = "64,128",
    size: Annotated[int, typer.Option(help="Ratings per batch.")] = 10_000,
    users: Annotated[int, typer.Option(help="Users per batch.")] = 2000,
    new_items: Annotated[int, typer.Option(help="New items per batch.")] = 50,
    batches: Annotated[int, typer.Option(help="Batches of each measurement; eight times as many on a device.")] = 5,
    places: Annotated[str, typer.Option(help="Comma-separated: host, device. Default: all available.")] = "",
) -> Iterator[Row]:
    """Milliseconds of batches of events learned online, and ratings per second, on host and device.

    Every batch adds new items, and every batch ranks all of them, so later batches take longer. Single batches run
    first; `newer_items` is the number of new items at the median one. Then come those of `ratings_per_second`, without
    pauses.
    """
    data, shape = datasets.ratings_of(ratings), Shape(size, users, new_items)
    # `choose` refuses an unknown name.
    named = [choose(place).name for place in places.split(",")] if places else ["host", choose().name]  # type: ignore[arg-type]
    for n_factors in options.whole(factors):
        params = params_for(algorithm, {"n_factors": n_factors})
        if params.refits != "sampled":
            raise InvalidInput(f"Invalid algorithm: expected sgd, esgd, culsh or culsh-implicit, got {algorithm!r}")
        for place in dict.fromkeys(named):
            n = batches * 8 if place == "device" else batches
            yield _measured(data, descending(params), shape, place, n)


def _measured(ratings: gpu.Ratings, params: GradientParams, shape: Shape, place: str, n: int) -> Row:
    """Measure one backend on `n` single batches and on as many without pauses."""
    stream, model = Stream(ratings, shape, 0), drawn_model(params, ratings.n_users, ratings.n_items)
    learn, finish = (_on_device if place == "device" else _on_host)(model, stream, ratings)
    say(f"{place}: {len(ratings):,} ratings loaded")
    taken_ms = []
    for _ in range(WARM_UP + n):
        batch = stream.batch()
        taken_ms.append(ms_of(lambda batch=batch: (learn(batch), finish())))  # type: ignore[misc]
    drawn = [stream.batch() for _ in range(n)]
    began = time.perf_counter()
    for batch in drawn:
        learn(batch)
    finish()
    rate = n * shape.batch / (time.perf_counter() - began)
    batch_ms, p99_ms = np.quantile(taken_ms[WARM_UP:], (0.5, 0.99)).tolist()
    return {
        "place": place, "algorithm": params.algorithm, "n_factors": params.n_factors, **shape._asdict(), "batches": n,
        "newer_items": (WARM_UP + n // 2) * shape.new_items, "batch_ms": batch_ms, "p99_ms": p99_ms,
        "ratings_per_second": rate,
    }  # fmt: skip


class Stream:
    """Draws consecutive batches."""

    def __init__(self, ratings: gpu.Ratings, shape: Shape, seed: int) -> None:
        self._rng, self._shape, self._ratings = np.random.default_rng(seed), shape, ratings
        self.n_users, self.n_items, self._position = ratings.n_users, ratings.n_items, len(ratings)
        self._pairs = np.repeat(np.arange(ratings.n_users), ratings.by_user.lengths), ratings.by_user.items
        self.user_keys, self.item_keys = self._keys(ratings.n_users), self._keys(ratings.n_items)

    def batch(self) -> Batch:
        """The next batch."""
        rng, shape, (rows, columns) = self._rng, self._shape, self._pairs
        n_new = int(NEW_USERS * shape.users)
        known = rows[rng.integers(0, len(rows), 4 * shape.users)]
        known = rng.permutation(np.unique(known))[: shape.users - n_new]
        users = np.resize(np.append(known, self.n_users + np.arange(n_new)), shape.batch)
        items = columns[rng.integers(0, len(columns), shape.batch)].astype(np.int64)
        is_new = rng.random(shape.batch) < NEW_ITEMS_RATINGS * (shape.new_items > 0)
        items[is_new] = self.n_items + rng.integers(0, max(shape.new_items, 1), np.count_nonzero(is_new))
        values = rng.integers(1, 6, shape.batch).astype(np.float32)
        self._replace(users, items, values)
        self.n_users, self.n_items = self.n_users + n_new, self.n_items + shape.new_items
        positions = self._position + np.arange(shape.batch)
        self._position += shape.batch
        return Batch(users, items, values, positions, self._keys(n_new), self._keys(shape.new_items))

    def _replace(self, users: NDArray[np.int64], items: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        """Let `CHANGED + DELETED` of the changes refer to a present rating of their user; some of them delete it."""
        starts, lengths, columns, _ = self._ratings.by_user
        chosen = np.flatnonzero(users < len(starts))
        chosen = chosen[self._rng.random(len(chosen)) < CHANGED + DELETED]
        chosen = chosen[lengths[users[chosen]] > 0]
        owners = users[chosen]
        items[chosen] = columns[starts[owners] + self._rng.integers(0, lengths[owners])]
        values[chosen[self._rng.random(len(chosen)) < DELETED / (CHANGED + DELETED)]] = np.nan

    def _keys(self, n: int) -> NDArray[np.uint64]:
        return self._rng.integers(0, 2**63, n).astype(np.uint64)


Learner = tuple[Callable[[Batch], None], Callable[[], None]]  # learns a batch; waits until all are learned


def _on_host(model: Model, stream: Stream, ratings: gpu.Ratings) -> Learner:
    """A rating table and a host model that follows it, as in the service."""
    table, keys = datasets.table_of(ratings), [stream.user_keys, stream.item_keys]
    follower = HostModel(model, table, keys[0], keys[1])

    def learn(batch: Batch) -> None:
        keys[:] = np.append(keys[0], batch.user_keys), np.append(keys[1], batch.item_keys)
        table.grow(len(keys[0]), len(keys[1]))
        follower.grow(*keys)
        times = batch.positions.astype(np.float64)
        follower.note(table.apply(batch.users, batch.items, batch.values, times, batch.positions))
        follower.settle()

    return learn, lambda: None


def _on_device(model: Model, stream: Stream, ratings: gpu.Ratings) -> Learner:
    """A model and its ratings in device memory."""
    learner = importlib.import_module("gpu.online.device.learner").DeviceLearner
    live: Any = learner(model, ratings.by_user, np.arange(len(ratings)), stream.user_keys, stream.item_keys)

    def learn(batch: Batch) -> None:
        live.grow(batch.user_keys, batch.item_keys)
        for _, step in live.steps(batch.users, batch.items, batch.values, batch.positions):
            step()

    return learn, live.finish
