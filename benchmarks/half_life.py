"""`python -m benchmarks half-life`: the next ratings, as models with and without a half-life expect them.

The ratings are taken in the order of time. Ten times a model is trained on all earlier ratings, as of the last one, and
makes lists for the users of the next twentieth; the first half is only trained on. Relevant are the next items that a
user likes and has not rated before, of users whom the model knows. Explicit models estimate the next ratings of users
and items that they know.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.prequential import Timeline
from benchmarks.report import say
from gpu.backend import Backend
from gpu.decay import weights_in
from gpu.ranking.weighted import heard_by_age
from service.cli.files import ratings_file

N_PARTS, N_TRAINED = 20, 10


@dataclass(frozen=True)
class Row:
    """Means over the steps; `half_life_days` is 0 for none. Explicit models have `rmse`, implicit ones the others.

    `seconds` are those of a training, without compiling if the algorithm has a step before.
    """

    algorithm: str
    half_life_days: float
    ndcg_10: float | None
    recall_20: float | None
    rmse: float | None
    seconds: float
    n_steps: int


def run(ratings: Path, days: list[float], backend: Backend, algorithm: str = "als-implicit") -> Iterator[Row]:
    """A row for no half-life, and one for each of `days`."""
    file = ratings_file.read(ratings)
    timeline = Timeline.of(file)
    assert file.timestamps is not None  # noqa: S101 - else there is no timeline; this narrows the type
    seconds = np.sort(np.asarray(file.timestamps, dtype=np.float64))
    for half_life_days in (None, *days):
        say(f"half-life of {half_life_days} days")
        params = gpu.params_for(algorithm, {"half_life_days": half_life_days} if half_life_days else {})
        steps = list(_steps(timeline, seconds, params, backend))
        ndcg, recall, rmse = (
            float(np.mean([step[name] for step in steps])) if name in steps[0] else None
            for name in ("ndcg@10", "recall@20", "rmse")
        )
        took = float(np.median([step["seconds"] for step in steps]))
        yield Row(algorithm, half_life_days or 0.0, ndcg, recall, rmse, took, len(steps))


def _steps(
    timeline: Timeline, seconds: NDArray[np.float64], params: gpu.Params, backend: Backend
) -> Iterator[dict[str, float]]:
    n = len(seconds)
    for step in range(N_TRAINED, N_PARTS):
        begin, end = n * step // N_PARTS, n * (step + 1) // N_PARTS
        earlier = timeline.ratings(begin)
        times, began = _times(timeline, earlier, seconds, begin), time.perf_counter()
        model = gpu.fit(earlier, params, backend=backend, times=times)
        took = time.perf_counter() - began
        users, items = timeline.user_rows[begin:end], timeline.item_rows[begin:end]
        known, shape = model.user_trained[users], (earlier.n_users, earlier.n_items)
        if not model.is_implicit:
            known &= model.item_trained[items]
        test = gpu.Ratings.from_coo(users[known], items[known], timeline.values[begin:end][known], shape)
        yield _measured(model, earlier, times, test, backend) | {"seconds": took}


def _measured(
    model: gpu.Model, earlier: gpu.Ratings, times: gpu.Times, test: gpu.Ratings, backend: Backend
) -> dict[str, float]:
    if not model.is_implicit:
        return {"rmse": gpu.evaluate.rmse(model, earlier.by_user, *test.coo(), backend=backend)}
    rows = heard_by_age(model, earlier.by_user, lambda entries: weights_in(model, times.seconds[entries]))
    return gpu.evaluate.ranking(model, rows, test, backend=backend)


def _times(timeline: Timeline, earlier: gpu.Ratings, seconds: NDArray[np.float64], begin: int) -> gpu.Times:
    """Times of `earlier`, the ratings before position `begin`, in their order."""
    pairs = timeline.user_rows[:begin].astype(np.int64) * earlier.n_items + timeline.item_rows[:begin]
    order = np.argsort(pairs, kind="stable")
    ordered = pairs[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True)  # of a pair that occurs twice, the last rating counts
    return gpu.Times(seconds[order[is_last]], float(seconds[begin - 1]))
