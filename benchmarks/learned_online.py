"""What learning online is worth beside retraining: `python -m benchmarks stream` and `newcomers`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks import datasets, options
from benchmarks.datasets import Dataset, Fold, apply
from benchmarks.methods import Ours
from benchmarks.options import Data, Factors, Fits, Names, Seeds, Source, Where
from benchmarks.results import Fit, Row, Store, say
from benchmarks.timing import median_of, timed
from gpu.online import prepare_online
from gpu.param_kinds import Params
from gpu.params import params_for, with_changes

SET, TEST_SHARE, N_BATCHES = "ml-1m", 0.05, 20  # of `stream`
SHARE = 0.01  # of users and items, that are new


def stream(data: Data, algorithms: Names = "als,sgd,culsh,esgd", backend: Where = "auto", json: Fits = None) -> None:
    """Test RMSE after half of ml-1m was learned online, and of the static and the retrained model; ms per batch.

    The ratings are in random order. A twentieth is the test part, and half of the rest is the training part. The other
    half arrives in 20 batches, and the online model learns each before the next arrives. It is compared with the
    trained model without online learning, and with a model trained on everything.
    """
    store, where, names = Store(json), options.chosen(backend), options.algorithms(algorithms)
    if datasets.available(data, [SET]):
        first, batches, test = parts_of(datasets.ratings_of(data / datasets.SOURCES[SET][1]))
        dataset = Dataset.of(SET, Fold(first, test))
        for algorithm in names:
            say(f"training {algorithm}")
            blank = Ours(algorithm, where).row(dataset, "stream", {})
            store.get(blank, lambda blank=blank: _streamed(blank, first, batches, test, where))  # type: ignore[misc]
    store.put_metrics("stream")


def parts_of(ratings: gpu.Ratings) -> tuple[gpu.Ratings, list[gpu.Ratings], gpu.Ratings]:
    """(trained first, batches in order, test): a random permutation of the ratings, divided."""
    order = np.random.default_rng(datasets.SEED).permutation(len(ratings))
    n_test = round(TEST_SHARE * len(order))
    test, first, later = np.split(order, [n_test, n_test + (len(order) - n_test) // 2])
    parts = [ratings.where(datasets.mask_of(part, len(ratings))) for part in (first, *np.array_split(later, N_BATCHES))]
    return parts[0], parts[1:], ratings.where(datasets.mask_of(test, len(ratings)))


def _streamed(
    blank: Fit, first: gpu.Ratings, batches: Sequence[gpu.Ratings], test: gpu.Ratings, backend: gpu.Backend
) -> Fit:
    """The RMSE of the three models on the test part, and the median milliseconds of a batch."""
    params, whole = params_for(blank.method, {}), datasets.joined([first, *batches])
    model = gpu.fit(first, params, backend=backend)
    static = gpu.evaluate.rmse(model, first.by_user, *test.coo())
    table, keys, n_seen, taken = datasets.table_of(first), (first.user_keys, first.item_keys), len(first), list[float]()
    online = prepare_online(model, table, *keys, backend).follow(*keys, since=len(first))
    online.settle()
    for batch in batches:
        began = time.perf_counter()
        online.note(apply(table, batch, n_seen))
        online.settle()
        taken.append(1e3 * (time.perf_counter() - began))
        n_seen += len(batch)
    learned = gpu.evaluate.rmse(online.model, table.rows, *test.coo())
    again, seconds = timed(lambda: gpu.fit(whole, params, backend=backend))
    retrained = gpu.evaluate.rmse(again, whole.by_user, *test.coo())
    metrics = {"as trained": static, "online": learned, "retrained": retrained, "ms a batch": statistics.median(taken)}
    return blank._replace(metrics=metrics, seconds=seconds)


class Trial(NamedTuple):
    """One seed with known users learned or kept: RMSE of the test ratings, and seconds; see `newcomers`."""

    retrained: float
    unseen: float
    online: float
    retraining_s: float
    online_s: float


def newcomers(
    ratings: Source,
    algorithms: Names = "culsh",
    factors: Factors = "128,32",
    seeds: Seeds = "0,1,2,3,4",
    backend: Where = "auto",
) -> Iterator[Row]:
    """Test RMSE after 1 % of the users and items were learned online, and after retraining on everything.

    A tenth of a file is held out. A random hundredth of the users and of the items is new ([004] table 9 has 698 of
    69,878 users and 106 of 10,677 items). A model is trained without their training ratings. These then arrive in one
    batch and are learned as in the service: new users and items are refitted, and so are known users who rated new
    items. In rows with `kept`, known users stay as trained, as in [004] Alg. 4. The model to compare with is trained on
    all training ratings. Both are tested on the same ratings, including those of new users and items.

    `retrained`, `unseen` and `online` are the RMSE of the model trained on everything, of the model without the
    newcomers, and of the latter after it has learned them; medians over the seeds. `difference` is
    `online` − `retrained`.
    `online_s` is the time from the arrival of the newcomers until all are learned; on a device with kept known users it
    includes the start of the learner.
    """
    (train, test), where = datasets.train_and_test(ratings), options.chosen(backend)
    for algorithm in options.algorithms(algorithms):
        for n_factors in options.whole(factors):
            params = params_for(algorithm, {"n_factors": n_factors})
            say(f"{params} ({where.name})")
            pairs = [_trials(train, test, with_changes(params, seed=seed), where) for seed in options.whole(seeds)]
            size = {"n_factors": params.width, "n_neighbors": getattr(params, "n_neighbors", 0)}
            for known_users, trials in zip(("learned", "kept"), zip(*pairs, strict=True), strict=True):
                differences = tuple(trial.online - trial.retrained for trial in trials)
                row = {"algorithm": algorithm, **size, "known_users": known_users}
                row |= dict(zip(Trial._fields, median_of(trials, *Trial._fields), strict=True))
                yield {**row, "difference": statistics.median(differences), "difference_by_seed": differences}


def _trials(train: gpu.Ratings, test: gpu.Ratings, params: Params, backend: gpu.Backend) -> tuple[Trial, Trial]:
    """The trials of one seed: with known users learned, and with known users kept."""
    generator = np.random.default_rng(getattr(params, "seed", 0))
    new_users, new_items = (
        datasets.mask_of(generator.permutation(n)[: round(SHARE * n)], n) for n in (train.n_users, train.n_items)
    )
    is_new = new_users[train.coo()[0]] | new_items[train.coo()[1]]

    def rmse(model: gpu.Model) -> float:
        return gpu.evaluate.rmse(model, train.by_user, *test.coo())

    without = gpu.fit(train.where(~is_new), params, backend=backend)
    model, retraining_s = timed(lambda: gpu.fit(train, params, backend=backend))
    retrained, unseen, trials = rmse(model), rmse(without), []
    for is_kept in (False, True):
        learned, online_s = _learned(datasets.copy_of(without), train, is_new, is_kept, backend)
        trials.append(Trial(retrained, unseen, rmse(learned), retraining_s, online_s))
    return trials[0], trials[1]


def _learned(
    model: gpu.Model, ratings: gpu.Ratings, is_new: NDArray[np.bool_], is_kept: bool, backend: gpu.Backend
) -> tuple[gpu.Model, float]:
    """(`model` after it has learned the newcomers, seconds); an online model refits rows that are not trained."""
    first = ratings if is_kept else ratings.where(~is_new)
    table, keys = datasets.table_of(first), (ratings.user_keys, ratings.item_keys)
    online = prepare_online(model, table, *keys, backend).follow(*keys)
    if not is_kept:
        online.settle()
    began = time.perf_counter()
    if not is_kept:
        online.note(apply(table, ratings.where(is_new), len(first)))
    online.settle()
    return online.model, time.perf_counter() - began
