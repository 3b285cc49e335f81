"""`python -m benchmarks dislikes`: whether lists treat one star as a dislike, on MovieLens-1M.

An anonymous user gives one star to k films. The result is the share of each film's ten nearest neighbors, as the
service lists them, that is in the user's next list of ten; and the same share after five stars. NDCG@10 counts only
held-out ratings of four stars and more as relevant.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks import datasets, options
from benchmarks.datasets import Dataset, Fold
from benchmarks.methods import Ours
from benchmarks.options import Data, Fits, Names, Where
from benchmarks.results import Fit, Store, say
from gpu.online import OnlineModel, prepare_online
from gpu.params import params_for
from gpu.ranking import topn

SET = "ml-1m-lists"
N_FILMS = (1, 3, 10)  # values of k
N_USERS = 300  # anonymous users for each k
N_SHOWN = 10  # films of a list, and neighbors
RELEVANT_FROM = 4.0
FEWEST_RATINGS = 50  # ratings of a drawn film; with fewer its neighbors would be mostly noise


def dislikes(
    data: Data,
    algorithms: Names = "als-implicit,culsh-implicit,culsh,als,sgd,esgd",
    backend: Where = "auto",
    json: Fits = None,
) -> None:
    """Share of a disliked item's nearest neighbors in the next list, and NDCG@10 of liked items, on ml-1m."""
    store, where, names = Store(json), options.chosen(backend), options.algorithms(algorithms)
    if datasets.available(data, [SET]):
        dataset = Dataset.of(SET, datasets.lists_fold(data / datasets.SOURCES[SET][1]))
        for algorithm in names:
            say(f"training {algorithm}")
            blank = Ours(algorithm, where).row(dataset, "dislikes", {})
            store.get(blank, functools.partial(_measured, blank, dataset.whole, where))
    store.put_metrics("dislikes")


def _measured(blank: Fit, fold: Fold, backend: gpu.Backend) -> Fit:
    """NDCG@10, and the share of neighbors in the next list for each k, after one star and after five."""
    model = gpu.fit(fold.train, params_for(blank.method, {}), backend=backend)
    keys = fold.train.user_keys, fold.train.item_keys
    ranks = gpu.evaluate.ranking(model, fold.train.by_user, fold.test, RELEVANT_FROM)
    metrics = {"NDCG@10, 4 and up": ranks["ndcg@10"]}
    online_model = prepare_online(model, datasets.table_of(fold.train), *keys, backend).follow(*keys)
    online_model.settle()
    pool = np.flatnonzero(fold.train.by_item.lengths >= FEWEST_RATINGS)
    for k in N_FILMS:
        generator = np.random.default_rng(datasets.SEED)
        drawn = [np.sort(generator.choice(pool, k, replace=False)) for _ in range(N_USERS)]
        for name, value in zip(("one star", "five stars"), fold.train.scale, strict=True):
            each = [_share_of_neighbors(online_model, items, value) for items in drawn]
            metrics[f"k = {k}, {name}"] = float(np.mean(each))
    return blank._replace(metrics=metrics)


def _share_of_neighbors(online_model: OnlineModel, items: NDArray[np.int64], value: float) -> float:
    """Mean over `items` of the share of their neighbors in the next list, after `value` was given to all of them."""
    values = np.full(len(items), value, dtype=np.float32)
    row = gpu.Rows(np.zeros(1, dtype=np.int64), np.array([len(items)]), items.astype(np.int32), values)
    shown, _ = topn.recommend(online_model.index, online_model.fold_in(row.items, values), row, N_SHOWN)
    return float(np.mean([np.isin(_neighbors(online_model.model, item), shown[0]).mean() for item in items.tolist()]))


def _neighbors(model: gpu.Model, item: int) -> NDArray[np.int32]:
    """The first `N_SHOWN` neighbors of an item: from the model's list if it has one, else by cosines of factors."""
    if model.neighbors.shape[1]:
        of_item = model.neighbors[item, :N_SHOWN]
        neighbors: NDArray[np.int32] = of_item[of_item != gpu.NO_NEIGHBOR]
        return neighbors
    return topn.similar(model.item_factors, item, N_SHOWN, model.item_trained)[0]
