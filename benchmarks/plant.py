"""`python -m benchmarks plant`: a data folder with a synthetic model and history of any size.

Factors and weights are normal, neighbors and sums of simLSH uniform. The time of an answer or of learning a batch
depends on sizes, not on values. So a load test of such a service has the times of a real one. Its recommendations mean
nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from benchmarks.report import say
from gpu.errors import InvalidInput
from gpu.model import Model
from gpu.param_kinds import Params
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment import filled
from service.storage.snapshots import live_versions, snapshot

MEAN, SCALE, STARS = 3.0, (1.0, 5.0), np.arange(1, 6, dtype=np.float32)
ITEM_SKEW, USER_SKEW = 0.8, 1 / 3  # the item of rank r has r ** -0.8 of the ratings, the user of rank r r ** -1/3
DEVIATION = 1 / 8  # of factors, and of weights of neighbors
MAX_SUM = 1000  # bound of the absolute sums of simLSH
CHUNK = 1 << 17  # rows of an array that are drawn together
PER_ENTRY, ENTRIES_PER_GROUP, GROUPS_PER_SEGMENT = 1000, 128, 16  # segments too long to be merged
N_SAMPLED = 500_000
SAMPLE = "ratings.csv"


@dataclass(frozen=True)
class Row:
    """The version and sizes of the folder, and seconds to write its log and its model."""

    version: str
    users: int
    items: int
    ratings: int
    most_of_a_user: int
    log_s: float
    model_s: float


def plant(data: Path, params: Params, n_users: int, n_items: int, n_ratings: int, seed: int = 0) -> Row:
    """Fill the folder `data` with the log of a history and a live model of all its users and items.

    Users are numbered from the most active one. `ratings.csv` is a sample of the history for `loadtest --ratings`.

    Args:
        data: created if it does not exist; must not hold ratings.
        params: parameters of the model, which determine its arrays.
        n_users, n_items: U, I; ids are `user-0`, `item-0` and so on. Each has at least one rating.
        n_ratings: number of drawn pairs. Some pairs are drawn twice, so the history has slightly fewer ratings.
        seed: equal seeds give equal files, except for times.

    Raises:
        InvalidInput: fewer ratings than users or items, or a folder with ratings.
    """
    if n_ratings < max(n_users, n_items):
        raise InvalidInput(f"Invalid ratings: expected one a user and item at least, got {n_ratings:,}")
    log = RatingLog(data / "ratings")
    if log.files.segments():
        raise InvalidInput(f"Invalid data: expected a folder without ratings, got {data}")
    began = time.perf_counter()
    history = _History.drawn(n_users, n_items, n_ratings, seed)
    watermark = _write_log(log, history)
    _write_sample(data / SAMPLE, history)
    log_s = time.perf_counter() - began
    say(f"log: {n_ratings:,} ratings in {log_s:.1f} s")
    model = drawn_model(params, n_users, n_items, seed)
    model.item_counts[:] = history.item_counts  # else all items would be due for a refit
    names = [[f"{kind}-{row}" for row in range(n)] for kind, n in (("user", n_users), ("item", n_items))]
    manifest = snapshot.write(data / "snapshots", model, *names, metrics={}, watermark=str(watermark))
    live_versions.set_version(data, manifest.algorithm, manifest.version)
    seconds = log_s, time.perf_counter() - began - log_s
    return Row(manifest.version, n_users, n_items, n_ratings, int(history.lengths.max()), *seconds)


@dataclass(frozen=True)
class _History:
    """Ratings in order of users: `lengths` (U,) ratings per user, `items` (N,), `stars` (N,)."""

    lengths: NDArray[np.int64]
    items: NDArray[np.int32]
    stars: NDArray[np.float32]
    n_items: int

    @classmethod
    def drawn(cls, n_users: int, n_items: int, n_ratings: int, seed: int) -> _History:
        rng = np.random.default_rng(seed)
        items = ranks(rng.random(n_ratings), n_items)
        items[np.arange(n_items) * (n_ratings // n_items)] = rng.permutation(n_items)  # every item gets a rating
        return cls(_lengths(n_users, n_ratings), items, rng.choice(STARS, n_ratings), n_items)

    @property
    def users(self) -> NDArray[np.int32]:
        """Row of each rating's user."""
        return np.repeat(np.arange(len(self.lengths), dtype=np.int32), self.lengths)

    @property
    def item_counts(self) -> NDArray[np.int64]:
        """Users who have rated each item, (I,)."""
        pairs = np.unique(self.users.astype(np.int64) * self.n_items + self.items)
        return np.bincount(pairs % self.n_items, minlength=self.n_items)


def _lengths(n_users: int, n_ratings: int) -> NDArray[np.int64]:
    """Number of ratings of each user (U,): one, and a share of the rest in proportion to rank ** −USER_SKEW."""
    shares = np.cumsum(np.arange(1, n_users + 1) ** -USER_SKEW)
    ends = np.rint(shares / shares[-1] * (n_ratings - n_users)).astype(np.int64)
    lengths: NDArray[np.int64] = 1 + np.diff(ends, prepend=0)
    return lengths


def ranks(uniform: NDArray[np.float64], n: int) -> NDArray[np.int32]:
    """Ranks from 0, drawn with a density of rank ** −ITEM_SKEW: the inverse of its integral."""
    power = 1 - ITEM_SKEW
    drawn = (1 + uniform * ((n + 1) ** power - 1)) ** (1 / power) - 1
    ranks: NDArray[np.int32] = np.minimum(drawn, n - 1).astype(np.int32)
    return ranks


# --- the log


def _write_log(log: RatingLog, history: _History) -> StreamId:
    """Write all ratings as entries of the last minutes; returns the id of the last one."""
    n_ratings = len(history.items)
    n_entries = -(-n_ratings // PER_ENTRY)
    first_ms = int(time.time() * 1000) - n_entries
    names = [pa.array([f"{kind}-{row}" for row in range(n)]) for kind, n in _counts(history)]
    users, per_segment = history.users, ENTRIES_PER_GROUP * GROUPS_PER_SEGMENT

    def write(entry: int) -> None:
        last = min(entry + per_segment, n_entries) - 1
        firsts = range(entry, last + 1, ENTRIES_PER_GROUP)
        groups = (_group(history, users, names, first_ms, first, min(first + ENTRIES_PER_GROUP, last + 1))
                  for first in firsts)  # fmt: skip
        log.files.write(StreamId(first_ms + entry, 0), StreamId(first_ms + last, 0), groups)

    with ThreadPoolExecutor(_n_threads()) as pool:
        list(pool.map(write, range(0, n_entries, per_segment)))
    return StreamId(first_ms + n_entries - 1, 0)


def _counts(history: _History) -> Iterator[tuple[str, int]]:
    yield "user", len(history.lengths)
    yield "item", history.n_items


def _group(
    history: _History, users: NDArray[np.int32], names: list[pa.Array], first_ms: int, first: int, end: int
) -> pa.Table:
    """Rows of the entries from `first` to before `end`."""
    rows = np.arange(first * PER_ENTRY, min(end * PER_ENTRY, len(users)))
    ms, part = first_ms + rows // PER_ENTRY, slice(rows[0], rows[-1] + 1)
    columns = {
        "ms": ms, "seq": np.zeros(len(rows), np.int64), "index": rows % PER_ENTRY,
        "kind": pa.array(["rating"]).take(pa.array(np.zeros(len(rows), np.int32))),
        "user": names[0].take(pa.array(users[part])), "item": names[1].take(pa.array(history.items[part])),
        "rating": history.stars[part], "timestamp": ms / 1000,
    }  # fmt: skip
    return filled(columns, len(rows))


def _write_sample(path: Path, history: _History) -> None:
    rows = np.arange(0, len(history.items), max(len(history.items) // N_SAMPLED, 1))
    columns = {
        "user": [f"user-{user}" for user in history.users[rows].tolist()],
        "item": [f"item-{item}" for item in history.items[rows].tolist()],
        "rating": history.stars[rows],
    }
    pyarrow.csv.write_csv(pa.table(columns), path, pyarrow.csv.WriteOptions(quoting_style="none"))


# --- the model


def drawn_model(params: Params, n_users: int, n_items: int, seed: int) -> Model:
    """A model with random values in every array that `params` require; all rows count as trained."""
    model = Model.zeros(params, MEAN, SCALE, n_users, n_items, n_bits=getattr(params, "n_bits", 0))
    model.mark_trained(np.ones(n_users, np.int64), np.arange(1, n_items + 1))
    normal = "user_factors", "item_factors", "user_bias", "item_bias", "explicit_weights", "implicit_weights"
    jobs = [(name, first) for name in (*normal, "neighbors", "projections")
            for first in range(0, len(getattr(model, name)), CHUNK)]  # fmt: skip

    def draw(number: int) -> None:
        name, first = jobs[number]
        part, rng = getattr(model, name)[first : first + CHUNK], np.random.default_rng((seed, number))
        if name in normal:
            np.multiply(rng.standard_normal(part.shape, dtype=np.float32), DEVIATION, out=part)
        elif name == "neighbors":
            part[:] = rng.integers(0, n_items, part.shape, dtype=np.int32)
        else:
            part[:] = rng.integers(-MAX_SUM, MAX_SUM, part.shape, dtype=np.int32)

    with ThreadPoolExecutor(_n_threads()) as pool:
        list(pool.map(draw, range(len(jobs))))
    return model


def _n_threads() -> int:
    return len(os.sched_getaffinity(0))
