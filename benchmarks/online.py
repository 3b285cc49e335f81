"""`python -m benchmarks online`: time of batches of events that host and device learn online.

A tenth of a batch's users are new; the others are known and drawn in proportion to their ratings. All users of a batch
have equally many ratings. New items get a twentieth of the ratings; known items get the rest in proportion to theirs.
2 % of the ratings change a present rating, and 1 % delete one. The model has random parameters, which do not affect
the time.
"""

from __future__ import annotations

import importlib
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.report import say
from gpu.backend import choose
from gpu.errors import InvalidInput
from gpu.model import NO_NEIGHBOR, Model
from gpu.online.host_model import HostModel
from gpu.online.rating_table import RatingTable
from gpu.param_kinds import GradientParams
from gpu.params import CulshParams, params_for
from gpu.training import simlsh

NEW_USERS, NEW_ITEMS_RATINGS, CHANGED, DELETED = 0.1, 0.05, 0.02, 0.01
NAN = float("nan")
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

    ratings: int
    users: int
    new_items: int


@dataclass(frozen=True)
class Learned:
    """One backend: median milliseconds of a batch, their 99th percentile, the rate, and medians of the steps.

    Every batch adds new items, and every batch ranks all of them, so later batches take longer. Whole batches run
    first; `newer_items` is the number of new items at the median one. Then batches run step by step, and at the end
    those of `ratings_per_second`, without pauses.
    """

    place: str
    algorithm: str
    n_factors: int
    batch: int
    users: int
    new_items: int
    batches: int
    newer_items: int
    batch_ms: float
    p99_ms: float
    ratings_per_second: float
    table_ms: float = NAN
    signatures_ms: float = NAN
    users_ms: float = NAN
    neighbors_ms: float = NAN
    items_ms: float = NAN


class Stream:
    """Draws consecutive batches."""

    def __init__(self, ratings: gpu.Ratings, shape: Shape, seed: int) -> None:
        self._rng, self._shape, self._ratings = np.random.default_rng(seed), shape, ratings
        self.n_users, self.n_items, self._position = ratings.n_users, ratings.n_items, len(ratings)
        rows = np.repeat(np.arange(ratings.n_users), ratings.by_user.lengths)
        self._pairs = rows, ratings.by_user.items
        self.user_keys, self.item_keys = self._keys(ratings.n_users), self._keys(ratings.n_items)

    def batch(self) -> Batch:
        """The next batch."""
        rng, shape, (rows, columns) = self._rng, self._shape, self._pairs
        n_new = int(NEW_USERS * shape.users)
        known = rows[rng.integers(0, len(rows), 4 * shape.users)]
        known = rng.permutation(np.unique(known))[: shape.users - n_new]
        users = np.resize(np.append(known, self.n_users + np.arange(n_new)), shape.ratings)
        items = columns[rng.integers(0, len(columns), shape.ratings)].astype(np.int64)
        is_new = rng.random(shape.ratings) < NEW_ITEMS_RATINGS * (shape.new_items > 0)
        items[is_new] = self.n_items + rng.integers(0, max(shape.new_items, 1), np.count_nonzero(is_new))
        values = rng.integers(1, 6, shape.ratings).astype(np.float32)
        self._replace(users, items, values)
        self.n_users, self.n_items = self.n_users + n_new, self.n_items + shape.new_items
        positions = self._position + np.arange(shape.ratings)
        self._position += shape.ratings
        return Batch(users, items, values, positions, self._keys(n_new), self._keys(shape.new_items))

    def _replace(self, users: NDArray[np.int64], items: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        """Let `CHANGED + DELETED` of the changes refer to a present rating of their user; some of them delete it."""
        starts, lengths, columns, _ = self._ratings.by_user
        chosen = np.flatnonzero(users < len(starts))
        chosen = chosen[self._rng.random(len(chosen)) < CHANGED + DELETED]
        owners = users[chosen]
        chosen, owners = chosen[lengths[owners] > 0], owners[lengths[owners] > 0]
        items[chosen] = columns[starts[owners] + self._rng.integers(0, lengths[owners])]
        values[chosen[self._rng.random(len(chosen)) < DELETED / (CHANGED + DELETED)]] = np.nan

    def _keys(self, n: int) -> NDArray[np.uint64]:
        return self._rng.integers(0, 2**63, n).astype(np.uint64)


def random_model(params: GradientParams, ratings: gpu.Ratings, seed: int = 0) -> Model:
    """A model with random parameters, of the magnitude of trained ones, and random neighbors."""
    rng, n_bits = np.random.default_rng(seed), simlsh.WORD_BITS * _words(params)
    mean, scale = (-1.4, (0.0, 1.0)) if params.is_implicit else (3.5, (1.0, 5.0))
    model = Model.zeros(params, mean, scale, ratings.n_users, ratings.n_items, n_bits)
    for name in ("user_factors", "item_factors", "explicit_weights", "implicit_weights"):
        array = getattr(model, name)
        array[:] = rng.standard_normal(array.shape, dtype=np.float32) * 0.1
    model.neighbors[:] = rng.integers(0, ratings.n_items, model.neighbors.shape)
    model.neighbors[model.neighbors == np.arange(ratings.n_items)[:, None]] = NO_NEIGHBOR
    model.user_trained[:], model.item_trained[:] = True, True
    return model


class OnHost:
    """A rating table and a host model that follows it, as in the service."""

    def __init__(self, model: Model, stream: Stream, ratings: gpu.Ratings) -> None:
        self._table, self._keys = RatingTable(ratings.n_users, ratings.n_items), (stream.user_keys, stream.item_keys)
        users, items, values = ratings.coo()
        positions = np.arange(len(users))
        self._table.apply(users, items, values, positions.astype(np.float64), positions)
        self._online = HostModel(model, self._table, *self._keys)

    def learn(self, batch: Batch, note: Callable[[], None] = lambda: None) -> None:
        """Learn a batch; calls `note` after the table and after the signatures."""
        self._keys = np.append(self._keys[0], batch.user_keys), np.append(self._keys[1], batch.item_keys)
        self._table.grow(len(self._keys[0]), len(self._keys[1]))
        self._online.grow(*self._keys)
        times = batch.positions.astype(np.float64)
        changes = self._table.apply(batch.users, batch.items, batch.values, times, batch.positions)
        note()
        self._online.note(changes)
        note()
        self._online.settle()

    def finish(self) -> None:
        """Do nothing: `learn` has finished."""


class OnDevice:
    """A model and its ratings in device memory."""

    def __init__(self, model: Model, stream: Stream, ratings: gpu.Ratings) -> None:
        live = importlib.import_module("gpu.device.online.learner")
        positions = np.arange(len(ratings))
        self._live: Any = live.DeviceLearner(model, ratings.by_user, positions, stream.user_keys, stream.item_keys)

    def learn(self, batch: Batch, note: Callable[[], None] | None = None) -> None:
        """Learn a batch; with `note`, wait for each step and call it."""
        self._live.grow(batch.user_keys, batch.item_keys)
        for _, step in self._live.steps(batch.users, batch.items, batch.values, batch.positions):
            step()
            if note is not None:
                self.finish()
                note()

    def finish(self) -> None:
        """Wait until the device has finished."""
        self._live.finish()


def places(text: str) -> list[str]:
    """The backends in `text` ("host,device"); by default the host, and the device if one works.

    Raises:
        BackendUnavailable: `text` has `device`, and no device works.
        InvalidInput: unknown name.
    """
    if not text:
        return ["host"] if choose().name == "host" else ["host", "device"]
    return [choose(place).name for place in text.split(",")]  # type: ignore[arg-type] # `choose` refuses an unknown name


def run(
    ratings: gpu.Ratings, settings: dict[str, Any], shape: Shape, places: Sequence[str], n_batches: int
) -> Iterator[Learned]:
    """Measure each backend on the same batches; the device gets eight times as many, for its percentile."""
    algorithm = settings.pop("algorithm")
    params = params_for(algorithm, settings)
    if not isinstance(params, GradientParams):
        raise InvalidInput(f"Invalid algorithm: expected sgd, esgd, culsh or culsh-implicit, got {algorithm!r}")
    for place in places:
        stream = Stream(ratings, shape, 0)
        online_model = (OnDevice if place == "device" else OnHost)(random_model(params, ratings), stream, ratings)
        n = n_batches * 8 if place == "device" else n_batches
        say(f"{place}: {len(ratings):,} ratings loaded")
        head = place, algorithm, params.n_factors, *shape, n, (WARM_UP + n // 2) * shape.new_items
        yield Learned(*head, *_measured(online_model, stream, n, shape.ratings))


def _measured(online_model: OnHost | OnDevice, stream: Stream, n: int, n_ratings: int) -> list[float]:
    """Median and 99th percentile of a batch in ms, ratings per second, and the median ms of each step in order."""
    for _ in range(WARM_UP):
        _steps_of(online_model, stream.batch())
    whole = [_whole(online_model, stream.batch()) for _ in range(n)]
    split = [_steps_of(online_model, stream.batch()) for _ in range(n)]
    steps = [statistics.median(column) for column in zip(*split, strict=True)]
    batches = [stream.batch() for _ in range(n)]
    began = time.perf_counter()
    for batch in batches:
        online_model.learn(batch)
    online_model.finish()
    rate = n * n_ratings / (time.perf_counter() - began)
    return [statistics.median(whole), float(np.quantile(whole, 0.99)), rate, *steps]


def _whole(online_model: OnHost | OnDevice, batch: Batch) -> float:
    """Learn a batch; returns its milliseconds."""
    began = time.perf_counter()
    online_model.learn(batch)
    online_model.finish()
    return 1e3 * (time.perf_counter() - began)


def _steps_of(online_model: OnHost | OnDevice, batch: Batch) -> list[float]:
    """Learn a batch; returns the milliseconds of each step."""
    times = [time.perf_counter()]
    online_model.learn(batch, lambda: times.append(time.perf_counter()))
    online_model.finish()
    return [1e3 * (after - before) for before, after in itertools.pairwise(times)]


def _words(params: GradientParams) -> int:
    return simlsh.n_words(params) if isinstance(params, CulshParams) else 0
