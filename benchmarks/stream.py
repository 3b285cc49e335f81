"""`python -m benchmarks stream`: a long stream that is learned online, on MovieLens-1M.

The ratings are in random order. A twentieth is the test part, and half of the rest is the training part. The other half
arrives in 20 batches, and the online model learns each before the next arrives. It is compared with the trained model
without online learning, and with a model trained on everything.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks import datasets
from benchmarks.datasets import Dataset, Fold
from benchmarks.methods import Ours
from benchmarks.peers.contract import ESTIMATES
from benchmarks.rows import Row, Store
from gpu.changes import Changes
from gpu.online import prepare_online
from gpu.online.rating_table import RatingTable
from gpu.params import params_for
from service.cli import offline
from service.cli.console import progress
from service.cli.files import ratings_file

STAGE = "stream"
SET = "ml-1m"
TEST_SHARE, N_BATCHES = 0.05, 20


class Parts(NamedTuple):
    """A stream: the ratings trained first, the ratings that arrive, in order, and the test ratings."""

    first: gpu.Ratings
    batches: list[gpu.Ratings]
    test: gpu.Ratings

    @property
    def everything(self) -> gpu.Ratings:
        """The training part and all batches."""
        parts = [part.coo() for part in (self.first, *self.batches)]
        users, items, values = (np.concatenate([part[column] for part in parts]) for column in range(3))
        shape = (self.first.n_users, self.first.n_items)
        return gpu.Ratings.from_coo(users, items, values, shape, self.first.user_keys, self.first.item_keys)


def run(data: Path, algorithms: Sequence[str], backend: gpu.Backend, store: Store) -> None:
    """Put a row for each algorithm into `store`."""
    if not datasets.available(data, [SET]):
        return
    file = ratings_file.read(data / datasets.SOURCES[SET].file)
    parts = parts_of(offline.Data.split(file, 0.0, datasets.SEED).train)
    fold = Fold(parts.first, parts.test)
    dataset = Dataset(SET, ESTIMATES, fold, fold, datasets.facts_of(parts.first))
    with progress(STAGE, len(algorithms)) as bar:
        for algorithm in algorithms:
            blank = Ours(algorithm, backend).row(dataset, STAGE, {})
            store.get(blank, lambda blank=blank: measured(blank, parts, backend))  # type: ignore[misc]
            bar.advance(note=algorithm)


def parts_of(ratings: gpu.Ratings) -> Parts:
    """Divide a random permutation of the ratings into the parts of a stream."""
    order = np.random.default_rng(datasets.SEED).permutation(len(ratings))
    n_test = round(TEST_SHARE * len(order))
    n_first = (len(order) - n_test) // 2
    test, first, later = np.split(order, [n_test, n_test + n_first])
    return Parts(
        _at(ratings, first), [_at(ratings, part) for part in np.array_split(later, N_BATCHES)], _at(ratings, test)
    )


def measured(blank: Row, parts: Parts, backend: gpu.Backend) -> Row:
    """Measure the RMSE of the three models on the test part, and the median milliseconds of a batch."""
    params = params_for(blank.method, {})
    model = gpu.fit(parts.first, params, backend=backend)
    static = gpu.evaluate.rmse(model, parts.first.by_user, *parts.test.coo())
    online, seconds = streamed(model, parts, backend)
    everything = parts.everything
    began = time.perf_counter()
    retrained_model = gpu.fit(everything, params, backend=backend)
    retraining_s = time.perf_counter() - began
    retrained = gpu.evaluate.rmse(retrained_model, everything.by_user, *parts.test.coo())
    metrics = {
        "as trained": static,
        "online": online,
        "retrained": retrained,
        "ms a batch": 1e3 * statistics.median(seconds),
    }
    return dataclasses.replace(blank, metrics=metrics, seconds=retraining_s)


def streamed(model: gpu.Model, parts: Parts, backend: gpu.Backend) -> tuple[float, list[float]]:
    """(RMSE after the last batch, seconds to learn each batch). Changes `model`."""
    table, keys = RatingTable(model.n_users, model.n_items), (parts.first.user_keys, parts.first.item_keys)
    _apply(table, parts.first, 0)
    online = prepare_online(model, table, *keys, backend).follow(*keys, since=len(parts.first))
    online.settle()
    seconds, n_seen = [], len(parts.first)
    for batch in parts.batches:
        began = time.perf_counter()
        online.note(_apply(table, batch, n_seen))
        online.settle()
        seconds.append(time.perf_counter() - began)
        n_seen += len(batch)
    return gpu.evaluate.rmse(online.model, table.rows, *parts.test.coo()), seconds


def _apply(table: RatingTable, ratings: gpu.Ratings, first: int) -> Changes:
    """Add ratings to the table, at positions from `first`."""
    users, items, values = ratings.coo()
    positions = first + np.arange(len(values))
    return table.apply(users, items, values, positions.astype(np.float64), positions)


def _at(ratings: gpu.Ratings, positions: NDArray[np.int64]) -> gpu.Ratings:
    is_chosen = np.zeros(len(ratings), dtype=np.bool_)
    is_chosen[positions] = True
    return ratings.where(is_chosen)
