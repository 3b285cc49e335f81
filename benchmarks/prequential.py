"""`python -m benchmarks prequential`: does learning while serving pay? Test-then-learn over a file's newest ratings.

The oldest 90 % are imported and trained on; each of the newest 10 % is first estimated and then posted, over HTTP. The
same ratings are estimated by the model as it was (no online learning) and by models retrained every 1,000 ratings.
All of them are trained without the held-out pairs, as the service always does.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.report import say
from benchmarks.running import post, retrain, serving
from gpu.errors import InvalidInput
from gpu.params import params_for
from service.cli import offline, ratings_file
from service.cli.ratings_file import RatingsFile
from service.engine.id_table import IdTable

TRAINED = 0.9
RETRAIN_EVERY = 1000


@dataclass(frozen=True)
class Row:
    """RMSE of estimates made before each rating was known, and how much of the way to retraining it went."""

    model: str
    prequential_rmse: float
    won_back: float


@dataclass(frozen=True)
class Timeline:
    """A file's ratings in time order, as rows of id tables."""

    users: IdTable
    items: IdTable
    user_rows: NDArray[np.int32]
    item_rows: NDArray[np.int32]
    values: NDArray[np.float32]
    n_trained: int

    @classmethod
    def of(cls, file: RatingsFile) -> Timeline:
        """Sort by time; equal times keep the order of the file."""
        if file.timestamps is None:
            raise InvalidInput("Invalid ratings: expected a column of timestamps, got none")
        order = np.argsort(file.timestamps, kind="stable")
        users, items, rows = offline.numbered(file)
        rows = rows.at(order)
        return cls(users, items, rows.users, rows.items, rows.values, int(TRAINED * len(order)))

    def ratings(self, end: int) -> gpu.Ratings:
        """The ratings before position `end`, in rows common to all."""
        shape = (len(self.users), len(self.items))
        columns = (self.user_rows[:end], self.item_rows[:end], self.values[:end])
        return gpu.Ratings.from_coo(*columns, shape, self.users.keys, self.items.keys)


def run(ratings: Path, algorithm: str) -> Iterator[Row]:
    """No online learning, online learning over HTTP, full retraining every 1,000 ratings."""
    timeline = Timeline.of(ratings_file.read(ratings))
    n = timeline.n_trained
    say(f"training on {n:,} ratings, streaming {len(timeline.values) - n:,}")
    static = _rmse(timeline, _retrained(timeline, algorithm, len(timeline.values)))
    retrained = _rmse(timeline, _retrained(timeline, algorithm, RETRAIN_EVERY))
    online = _rmse(timeline, _online(timeline, algorithm))
    yield Row(f"{algorithm}, no online learning", static, 0.0)
    won_back = (static - online) / (static - retrained) if static != retrained else math.nan  # as for few ratings
    yield Row(f"{algorithm}, online", online, won_back)
    yield Row(f"{algorithm}, retrained every {RETRAIN_EVERY:,} ratings", retrained, 1.0)


def _rmse(timeline: Timeline, estimates: NDArray[np.float32]) -> float:
    errors = estimates.astype(np.float64) - timeline.values[timeline.n_trained :]
    return float(np.sqrt(np.mean(errors**2)))


def _retrained(timeline: Timeline, algorithm: str, every: int) -> NDArray[np.float32]:
    """Estimates by a model that is retrained after every `every` ratings, and knows no newer ones."""
    estimates = []
    for begin in range(timeline.n_trained, len(timeline.values), every):
        say(f"  full training on {begin:,} ratings")
        known = timeline.ratings(begin)
        users, items, _ = known.coo()
        model = gpu.fit(
            known.where(~gpu.evaluate.is_held_out(known.user_keys[users], known.item_keys[items])),
            params_for(algorithm, {}),
        )
        pairs = (timeline.user_rows[begin : begin + every], timeline.item_rows[begin : begin + every])
        estimates.append(gpu.evaluate.predict(model, known.by_user, *pairs))
    return np.concatenate(estimates)


def _online(timeline: Timeline, algorithm: str) -> NDArray[np.float32]:
    """Estimates by a running service, each asked for once everything before it has been learned."""
    users = [str(timeline.users.id(u)) for u in timeline.user_rows.tolist()]
    items = [str(timeline.items.id(i)) for i in timeline.item_rows.tolist()]
    n = timeline.n_trained
    estimates = []
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder, serving(Path(folder)) as (client, _):
        post(client, users[:n], items[:n], timeline.values[:n])
        retrain(client, algorithm)
        seen = None
        for user, item, value in zip(users[n:], items[n:], timeline.values[n:].tolist(), strict=True):
            estimates.append(client.estimate(user, item, wait_for=seen)["estimate"])
            seen = client.rate({"user": user, "item": item, "rating": value})["stream_id"]
    return np.array(estimates, dtype=np.float32)
