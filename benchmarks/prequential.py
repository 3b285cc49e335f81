"""`python -m benchmarks prequential`: what online learning gains: test-then-learn on a file's newest ratings.

The service imports the oldest 90 % and trains on them. Each of the newest 10 % is first estimated and then posted, over
HTTP. The trained model without online learning and models retrained every 1,000 ratings estimate the same ratings. All
models are trained without the held-out pairs, as the service always does.
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
from service.cli import offline
from service.cli.files import ratings_file
from service.cli.files.ratings_file import RatingsFile
from service.engine.state.id_table import IdTable

TRAINED = 0.9
RETRAIN_EVERY = 1000


@dataclass(frozen=True)
class Row:
    """RMSE of estimates made before each rating arrives; `won_back` is the share of retraining's gain."""

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
        """Sort by time; ratings with equal times keep their order."""
        if file.timestamps is None:
            raise InvalidInput("Invalid ratings: expected a column of timestamps, got none")
        order = np.argsort(file.timestamps, kind="stable")
        users, items, rows = offline.numbered(file)
        rows = rows.at(order)
        return cls(users, items, rows.users, rows.items, rows.values, int(TRAINED * len(order)))

    def ratings(self, end: int) -> gpu.Ratings:
        """The ratings before position `end`, in the rows of the whole timeline."""
        shape = (len(self.users), len(self.items))
        columns = (self.user_rows[:end], self.item_rows[:end], self.values[:end])
        return gpu.Ratings.from_coo(*columns, shape, self.users.keys, self.items.keys)


def run(ratings: Path, algorithm: str) -> Iterator[Row]:
    """A row without online learning, one with it over HTTP, and one with a full retraining every 1,000 ratings."""
    timeline = Timeline.of(ratings_file.read(ratings))
    n = timeline.n_trained
    say(f"training on {n:,} ratings, streaming {len(timeline.values) - n:,}")
    static = _rmse(timeline, _retrained(timeline, algorithm, len(timeline.values)))
    retrained = _rmse(timeline, _retrained(timeline, algorithm, RETRAIN_EVERY))
    online = _rmse(timeline, _online(timeline, algorithm))
    yield Row(f"{algorithm}, no online learning", static, 0.0)
    won_back = (
        (static - online) / (static - retrained) if static != retrained else math.nan
    )  # equal if there are few ratings
    yield Row(f"{algorithm}, online", online, won_back)
    yield Row(f"{algorithm}, retrained every {RETRAIN_EVERY:,} ratings", retrained, 1.0)


def _rmse(timeline: Timeline, estimates: NDArray[np.float32]) -> float:
    errors = estimates.astype(np.float64) - timeline.values[timeline.n_trained :]
    return float(np.sqrt(np.mean(errors**2)))


def _retrained(timeline: Timeline, algorithm: str, every: int) -> NDArray[np.float32]:
    """Estimates by a model that is retrained every `every` ratings, on the ratings before."""
    estimates = []
    for begin in range(timeline.n_trained, len(timeline.values), every):
        say(f"  full training on {begin:,} ratings")
        earlier = timeline.ratings(begin)
        users, items, _ = earlier.coo()
        model = gpu.fit(
            earlier.where(~gpu.evaluate.is_held_out(earlier.user_keys[users], earlier.item_keys[items])),
            params_for(algorithm, {}),
        )
        pairs = (timeline.user_rows[begin : begin + every], timeline.item_rows[begin : begin + every])
        estimates.append(gpu.evaluate.predict(model, earlier.by_user, *pairs))
    return np.concatenate(estimates)


def _online(timeline: Timeline, algorithm: str) -> NDArray[np.float32]:
    """Estimates by a running service; each request waits until all earlier ratings are learned."""
    users = [str(timeline.users.id(u)) for u in timeline.user_rows.tolist()]
    items = [str(timeline.items.id(i)) for i in timeline.item_rows.tolist()]
    n = timeline.n_trained
    estimates = []
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder, serving(Path(folder)) as (client, _):
        post(client, users[:n], items[:n], timeline.values[:n])
        retrain(client, algorithm)
        last_id = None
        for user, item, value in zip(users[n:], items[n:], timeline.values[n:].tolist(), strict=True):
            estimates.append(client.estimate(user, item, wait_for=last_id)["estimate"])
            last_id = client.rate({"user": user, "item": item, "rating": value})["stream_id"]
    return np.array(estimates, dtype=np.float32)
