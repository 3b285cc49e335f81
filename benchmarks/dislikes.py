"""`python -m benchmarks dislikes`: whether lists take one star for a dislike, on MovieLens-1M.

Somebody who is not known gives one star to k films. Shown is the share of each film's ten nearest neighbors, as the
service would list them, among the ten films of the next list, and the same after five stars. NDCG@10 counts held-out
ratings of four stars and more as relevant, and no others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks import datasets
from benchmarks.datasets import Dataset, Fold
from benchmarks.methods import Ours
from benchmarks.peers.contract import LISTS
from benchmarks.rows import Row, Store
from gpu.online import OnlineModel, prepare_online
from gpu.online.rating_table import RatingTable
from gpu.params import params_for
from gpu.ranking import topn
from service.cli.console import progress

STAGE = "dislikes"
SET = "ml-1m-lists"
N_FILMS = (1, 3, 10)  # k
N_USERS = 300  # anonymous ones, for each k
N_SHOWN = 10  # films of a list, and neighbors
RELEVANT_FROM = 4.0
FEWEST_RATINGS = 50  # of a film that may be drawn: it has neighbors worth the name


class Drawn(NamedTuple):
    """What anonymous users have rated: item rows (B, k), ascending in each row; lowest and highest rating."""

    items: NDArray[np.int64]
    stars: tuple[float, float]


def run(data: Path, algorithms: Sequence[str], backend: gpu.Backend, store: Store) -> None:
    """A row for each algorithm."""
    if not datasets.available(data, [SET]):
        return
    fold = datasets.lists_fold(data / datasets.SOURCES[SET].file)
    dataset = Dataset(SET, LISTS, fold, fold, datasets.facts_of(fold.train))
    with progress(STAGE, len(algorithms)) as bar:
        for algorithm in algorithms:
            measure_one(dataset, algorithm, backend, store)
            bar.advance(note=algorithm)


def measure_one(dataset: Dataset, algorithm: str, backend: gpu.Backend, store: Store) -> None:
    """Train on the training part and look at lists."""
    wanted = Ours(algorithm, backend).row(dataset, STAGE, {})

    def computed() -> Row:
        fold = dataset.whole
        model = gpu.fit(fold.train, params_for(algorithm, {}), backend=backend)
        ranks = gpu.evaluate.ranking(model, fold.train.by_user, fold.test, RELEVANT_FROM)
        return dataclasses.replace(
            wanted, metrics={"NDCG@10, 4 and up": ranks["ndcg@10"], **shares(model, fold, backend)}
        )

    store.get(wanted, computed)


def shares(model: gpu.Model, fold: Fold, backend: gpu.Backend) -> dict[str, float]:
    """Share of neighbors in the next list for each k, after one star and after five."""
    online_model, found = following(model, fold.train, backend), {}
    for k in N_FILMS:
        drawn = draw(fold.train, k)
        for name, value in zip(("one star", "five stars"), drawn.stars, strict=True):
            each = [share_of_neighbors(online_model, items, value) for items in drawn.items]
            found[f"k = {k}, {name}"] = float(np.mean(each))
    return found


def draw(ratings: gpu.Ratings, k: int) -> Drawn:
    """Films of `N_USERS` users."""
    generator = np.random.default_rng(datasets.SEED)
    pool = np.flatnonzero(ratings.by_item.lengths >= FEWEST_RATINGS)
    items = np.array([np.sort(generator.choice(pool, k, replace=False)) for _ in range(N_USERS)])
    return Drawn(items, ratings.scale)


def share_of_neighbors(online_model: OnlineModel, items: NDArray[np.int64], value: float) -> float:
    """Mean over `items` of the share of their neighbors that the next list shows, if all were rated `value`."""
    values = np.full(len(items), value, dtype=np.float32)
    row = gpu.Rows(np.zeros(1, dtype=np.int64), np.array([len(items)]), items.astype(np.int32), values)
    shown, _ = topn.recommend(online_model.index, online_model.fold_in(row.items, values), row, N_SHOWN)
    return float(np.mean([np.isin(neighbors_of(online_model.model, item), shown[0]).mean() for item in items.tolist()]))


def neighbors_of(model: gpu.Model, item: int) -> NDArray[np.int32]:
    """The first of the model's own list, else of the cosines of factors."""
    if model.neighbors.shape[1]:
        listed = model.neighbors[item, :N_SHOWN]
        known: NDArray[np.int32] = listed[listed != gpu.NO_NEIGHBOR]
        return known
    return topn.similar(model.item_factors, item, N_SHOWN, model.item_trained)[0]


def following(model: gpu.Model, ratings: gpu.Ratings, backend: gpu.Backend) -> OnlineModel:
    """The model as a service holds it, in the rows of a table of the ratings that it was trained on."""
    table = RatingTable(ratings.n_users, ratings.n_items)
    users, items, values = ratings.coo()
    positions = np.arange(len(values))
    table.apply(users, items, values, positions.astype(np.float64), positions)
    keys = (ratings.user_keys, ratings.item_keys)
    online_model = prepare_online(model, table, *keys, backend).follow(*keys)
    online_model.settle()
    return online_model
