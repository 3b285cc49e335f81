"""`python -m benchmarks dislikes`: whether lists treat one star as a dislike, on MovieLens-1M.

An anonymous user gives one star to k films. The result is the share of each film's ten nearest neighbors, as the
service lists them, that is in the user's next list of ten; and the same share after five stars. NDCG@10 counts only
held-out ratings of four stars and more as relevant.
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
N_FILMS = (1, 3, 10)  # values of k
N_USERS = 300  # anonymous users for each k
N_SHOWN = 10  # films of a list, and neighbors
RELEVANT_FROM = 4.0
FEWEST_RATINGS = 50  # ratings of a drawn film; with fewer its neighbors would be mostly noise


class Drawn(NamedTuple):
    """Ratings of anonymous users: item rows (B, k), ascending in each row; lowest and highest rating."""

    items: NDArray[np.int64]
    stars: tuple[float, float]


def run(data: Path, algorithms: Sequence[str], backend: gpu.Backend, store: Store) -> None:
    """Put a row for each algorithm into `store`."""
    if not datasets.available(data, [SET]):
        return
    fold = datasets.lists_fold(data / datasets.SOURCES[SET].file)
    dataset = Dataset(SET, LISTS, fold, fold, datasets.facts_of(fold.train))
    with progress(STAGE, len(algorithms)) as bar:
        for algorithm in algorithms:
            measure_one(dataset, algorithm, backend, store)
            bar.advance(note=algorithm)


def measure_one(dataset: Dataset, algorithm: str, backend: gpu.Backend, store: Store) -> None:
    """Train on the training part and measure lists."""
    blank = Ours(algorithm, backend).row(dataset, STAGE, {})

    def computed() -> Row:
        fold = dataset.whole
        model = gpu.fit(fold.train, params_for(algorithm, {}), backend=backend)
        ranks = gpu.evaluate.ranking(model, fold.train.by_user, fold.test, RELEVANT_FROM)
        return dataclasses.replace(
            blank, metrics={"NDCG@10, 4 and up": ranks["ndcg@10"], **shares(model, fold, backend)}
        )

    store.get(blank, computed)


def shares(model: gpu.Model, fold: Fold, backend: gpu.Backend) -> dict[str, float]:
    """Share of neighbors in the next list for each k, after one star and after five."""
    online_model, shares_by_name = following(model, fold.train, backend), {}
    for k in N_FILMS:
        sample = draw(fold.train, k)
        for name, value in zip(("one star", "five stars"), sample.stars, strict=True):
            each = [share_of_neighbors(online_model, items, value) for items in sample.items]
            shares_by_name[f"k = {k}, {name}"] = float(np.mean(each))
    return shares_by_name


def draw(ratings: gpu.Ratings, k: int) -> Drawn:
    """Draw k films for each of `N_USERS` users."""
    generator = np.random.default_rng(datasets.SEED)
    pool = np.flatnonzero(ratings.by_item.lengths >= FEWEST_RATINGS)
    items = np.array([np.sort(generator.choice(pool, k, replace=False)) for _ in range(N_USERS)])
    return Drawn(items, ratings.scale)


def share_of_neighbors(online_model: OnlineModel, items: NDArray[np.int64], value: float) -> float:
    """Mean over `items` of the share of their neighbors in the next list, after `value` was given to all of them."""
    values = np.full(len(items), value, dtype=np.float32)
    row = gpu.Rows(np.zeros(1, dtype=np.int64), np.array([len(items)]), items.astype(np.int32), values)
    shown, _ = topn.recommend(online_model.index, online_model.fold_in(row.items, values), row, N_SHOWN)
    return float(np.mean([np.isin(neighbors_of(online_model.model, item), shown[0]).mean() for item in items.tolist()]))


def neighbors_of(model: gpu.Model, item: int) -> NDArray[np.int32]:
    """The first `N_SHOWN` neighbors of an item: from the model's list if it has one, else by cosines of factors."""
    if model.neighbors.shape[1]:
        of_item = model.neighbors[item, :N_SHOWN]
        neighbors: NDArray[np.int32] = of_item[of_item != gpu.NO_NEIGHBOR]
        return neighbors
    return topn.similar(model.item_factors, item, N_SHOWN, model.item_trained)[0]


def following(model: gpu.Model, ratings: gpu.Ratings, backend: gpu.Backend) -> OnlineModel:
    """An online model, as in the service, that follows a table of its training ratings."""
    table = RatingTable(ratings.n_users, ratings.n_items)
    users, items, values = ratings.coo()
    positions = np.arange(len(values))
    table.apply(users, items, values, positions.astype(np.float64), positions)
    keys = (ratings.user_keys, ratings.item_keys)
    online_model = prepare_online(model, table, *keys, backend).follow(*keys)
    online_model.settle()
    return online_model
