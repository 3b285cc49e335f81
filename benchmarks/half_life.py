"""`python -m benchmarks half-life`: lists of the next ratings, by als-implicit with and without a half-life.

The ratings are taken in the order of time. Ten times a model is trained on all earlier ratings, as of the last one, and
makes lists for the users of the next twentieth; the first half is only trained on. Relevant are the next items that a
user likes and has not rated before, of users whom the model knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.prequential import Timeline
from benchmarks.report import say
from gpu.backend import Backend
from service.cli import ratings_file

ALGORITHM, N_PARTS, N_TRAINED = "als-implicit", 20, 10


@dataclass(frozen=True)
class Row:
    """Means over the steps; `half_life_days` is 0 for none."""

    half_life_days: float
    ndcg_10: float
    recall_20: float
    n_steps: int


def run(ratings: Path, days: list[float], backend: Backend) -> Iterator[Row]:
    """A row for no half-life, and one for each of `days`."""
    file = ratings_file.read(ratings)
    timeline = Timeline.of(file)
    assert file.timestamps is not None  # noqa: S101 - else there is no timeline; this narrows the type
    seconds = np.sort(np.asarray(file.timestamps, dtype=np.float64))
    for half_life_days in (None, *days):
        say(f"half-life of {half_life_days} days")
        steps = list(_steps(timeline, seconds, half_life_days, backend))
        ndcg, recall = (float(np.mean([step[name] for step in steps])) for name in ("ndcg@10", "recall@20"))
        yield Row(half_life_days or 0.0, ndcg, recall, len(steps))


def _steps(
    timeline: Timeline, seconds: NDArray[np.float64], half_life_days: float | None, backend: Backend
) -> Iterator[dict[str, float]]:
    n = len(seconds)
    for step in range(N_TRAINED, N_PARTS):
        begin, end = n * step // N_PARTS, n * (step + 1) // N_PARTS
        earlier = timeline.ratings(begin)
        params = gpu.params_for(ALGORITHM, {"half_life_days": half_life_days})
        model = gpu.fit(earlier, params, backend=backend, times=_times(timeline, earlier, seconds, begin))
        users, items = timeline.user_rows[begin:end], timeline.item_rows[begin:end]
        known, shape = model.user_trained[users], (earlier.n_users, earlier.n_items)
        test = gpu.Ratings.from_coo(users[known], items[known], timeline.values[begin:end][known], shape)
        yield gpu.evaluate.ranking(model, earlier.by_user, test, backend=backend)


def _times(timeline: Timeline, earlier: gpu.Ratings, seconds: NDArray[np.float64], begin: int) -> gpu.Times:
    """Times of `earlier`, the ratings before position `begin`, in their order."""
    pairs = timeline.user_rows[:begin].astype(np.int64) * earlier.n_items + timeline.item_rows[:begin]
    order = np.argsort(pairs, kind="stable")
    ordered = pairs[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True)  # of a pair that occurs twice, the last rating counts
    return gpu.Times(seconds[order[is_last]], float(seconds[begin - 1]))
