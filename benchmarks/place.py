"""`python -m benchmarks place`: load a model of any size onto a backend, and time reads and learning there.

Parameters and ratings are synthetic (`benchmarks.plant`); no service runs. A read is a call of 64 users. A batch
holds changes by random users. Its time begins with the update of the table on the host and ends when the next read uses
the new factors. The model refits new items and gives them neighbors, as a service does with items that are newer than
its snapshot.
"""

from __future__ import annotations

import itertools
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.plant import STARS, drawn_model, ranks
from benchmarks.report import say
from gpu.backend import Backend
from gpu.changes import Changes
from gpu.model import NO_NEIGHBOR, Model
from gpu.online import OnlineModel, prepare_online
from gpu.online.rating_table import RatingTable
from gpu.param_kinds import Params
from gpu.ranking import item_index, topn
from service.engine.rehearsal import rehearse_model

N_READERS, N = 64, 10
WARM_UP, ROUNDS = 3, 20
CHUNK = 1_000_000  # ratings that are drawn and applied at a time


class Sizes(NamedTuple):
    """Problem size: users, items, items that the model has never seen, ratings, and changes per batch."""

    users: int
    items: int
    new_items: int
    ratings: int
    changes: int


@dataclass(frozen=True)
class Row:
    """One model: seconds until it answers and learns, gigabytes, and milliseconds of a read and of a batch of changes.

    `place_s` includes compiling kernels; `settle_s` is the time to copy the ratings to where the model learns.
    `slice_ms` is its longest slice; the engine answers no request during a slice. `learn_ms` is the median time of a
    batch, and `learn_slice_ms` its longest slice. `ratings_per_second` is the rate of batches without pauses.
    """

    algorithm: str
    users: int
    items: int
    new_items: int
    factors: int
    neighbors: int
    ratings: int
    changes: int
    model_gb: float
    place_s: float
    settle_s: float
    slice_ms: float
    device_arrays_gb: float
    device_taken_gb: float
    process_gb: float
    read_ms: float
    learn_ms: float
    learn_slice_ms: float
    ratings_per_second: float


def run(params: Params, sizes: Sizes, backend: Backend) -> Row:
    """Load a model of this size, let it follow the ratings, and time reads and batches."""
    rng = np.random.default_rng(0)
    model = drawn_model(params, sizes.users, sizes.items, 0)
    _forget_items(model, rng.permutation(sizes.items)[: sizes.new_items])
    model_gb = model.n_bytes / 1e9
    say("parameters drawn")
    table = RatingTable(sizes.users, sizes.items)
    for first in range(0, sizes.ratings, CHUNK):
        _rate(table, rng, np.sort(rng.integers(0, sizes.users, min(CHUNK, sizes.ratings - first))), first)
    n_ratings = table.n_ratings  # fewer than drawn: a pair drawn twice counts once
    say(f"{n_ratings:,} ratings")
    keys = rng.integers(0, 2**63, max(sizes.users, sizes.items)).astype(np.uint64)
    keys_of_both = keys[: sizes.users], keys[: sizes.items]
    item_index.prepare(params.width, backend)
    rehearse_model(params.algorithm, backend)
    began = time.perf_counter()
    ready_model = prepare_online(model, table, *keys_of_both, backend)
    place_s = time.perf_counter() - began
    online_model = ready_model.follow(*keys_of_both)
    slice_ms = _settle(online_model)
    settle_s = time.perf_counter() - began - place_s
    say(f"loaded in {place_s:.1f} s, settled in {settle_s:.1f} s")
    read_ms = _median_ms(lambda: _read(online_model, table, rng.integers(0, sizes.users, N_READERS)))
    positions = itertools.count(sizes.ratings, sizes.changes)
    slices: list[float] = []
    learn_ms = _median_ms(lambda: slices.append(_learn(online_model, table, rng, sizes.changes, next(positions))))
    device_bytes = backend.device_bytes()
    return Row(
        params.algorithm, sizes.users, sizes.items, sizes.new_items, params.width, model.neighbors.shape[1], n_ratings,
        sizes.changes, model_gb, place_s, settle_s, slice_ms, device_bytes.get("arrays", 0) / 1e9,
        device_bytes.get("taken", 0) / 1e9, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, read_ms,
        learn_ms, max(slices[WARM_UP:]), 1e3 * sizes.changes / learn_ms,
    )  # fmt: skip


def _forget_items(model: Model, items: NDArray[np.int64]) -> None:
    """Make `items` (B,) newer than the snapshot."""
    for name in ("item_factors", "item_bias", "item_baseline", "explicit_weights", "implicit_weights", "item_trained"):
        getattr(model, name)[items] = 0
    model.neighbors[items] = NO_NEIGHBOR


def _settle(online_model: OnlineModel) -> float:
    """Settle in slices; returns milliseconds of the longest."""
    longest_s, is_done = 0.0, False
    while not is_done:
        began = time.perf_counter()
        is_done = online_model.settle(0.0)
        longest_s = max(longest_s, time.perf_counter() - began)
    return 1e3 * longest_s


def _rate(table: RatingTable, rng: np.random.Generator, users: NDArray[np.int64], first: int) -> Changes:
    """Let each of `users` (B,) rate a random item."""
    items = ranks(rng.random(len(users)), table.n_items).astype(np.int64)
    values, positions = rng.choice(STARS, len(users)), np.arange(first, first + len(users))
    return table.apply(users, items, values, np.zeros(len(users)), positions)


def _read(online_model: OnlineModel, table: RatingTable, users: NDArray[np.int64]) -> None:
    topn.recommend(online_model.index, topn.users_of(online_model.model, users), topn.rows_of(table.rows, users), N)


def _learn(
    online_model: OnlineModel, table: RatingTable, rng: np.random.Generator, n_changes: int, first: int
) -> float:
    """Learn a batch in slices, as an engine does; returns milliseconds of the longest."""
    users = rng.integers(0, table.n_users, n_changes)
    online_model.note(_rate(table, rng, users, first))
    return _settle(online_model)


def _median_ms(call: Callable[[], None]) -> float:
    times = []
    for _ in range(WARM_UP + ROUNDS):
        began = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times[WARM_UP:])
