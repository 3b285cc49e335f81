"""`python -m benchmarks newcomers`: new users and items that are learned online, compared with retraining.

A random hundredth of the users and of the items is new ([004] table 9 has 698 of 69,878 users and 106 of 10,677 items).
A model is trained without their training ratings. These then arrive in one batch and are learned as in the service: new
users and items are refitted, and so are known users who rated new items. In rows with `kept`, known users stay as
trained, as in [004] Alg. 4. The model to compare with is trained on all training ratings. Both models are tested on the
same ratings, including those of new users and items.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.report import say
from gpu.online.host_model import HostModel
from gpu.online.rating_table import RatingTable
from gpu.param_kinds import GradientParams, Params
from gpu.params import params_for, with_changes

SHARE = 0.01
Events = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]]


@dataclass(frozen=True)
class Row:
    """One part of the test ratings; values are medians over the seeds.

    `retrained`, `unseen` and `online` are the RMSE of the model trained on everything, of the model without the
    newcomers, and of the latter after it has learned them. `difference` is `online` − `retrained`. `retraining_s` is
    the time of the whole training. `online_s` is the time from the arrival of the newcomers until all are learned; on a
    device with kept known users it includes the start of the learner.
    """

    algorithm: str
    n_factors: int
    n_neighbors: int
    known_users: str
    test_ratings_of: str
    n_ratings: int
    retrained: float
    unseen: float
    online: float
    difference: float
    difference_by_seed: tuple[float, ...]
    retraining_s: float
    online_s: float


@dataclass(frozen=True)
class Newcomers:
    """Which users and items are new, bool (U,) and (I,)."""

    users: NDArray[np.bool_]
    items: NDArray[np.bool_]

    @classmethod
    def drawn(cls, ratings: gpu.Ratings, seed: int) -> Newcomers:
        """Draw `SHARE` of the users and of the items."""
        generator = np.random.default_rng(seed)
        return cls(_drawn(generator, ratings.n_users), _drawn(generator, ratings.n_items))

    def rated(self, ratings: gpu.Ratings) -> NDArray[np.bool_]:
        """Which ratings are of a new user or a new item, bool (N,) in the order of `coo`."""
        users, items, _ = ratings.coo()
        return self.users[users] | self.items[items]

    def parts(self, test: gpu.Ratings) -> dict[str, NDArray[np.bool_]]:
        """Masks (N,) of the test ratings: all, of new users, of new items, of others."""
        users, items, _ = test.coo()
        of_users, of_items = self.users[users], self.items[items]
        everything = np.ones(len(users), dtype=np.bool_)
        return {"all": everything, "new users": of_users, "new items": of_items, "others": ~(of_users | of_items)}


@dataclass(frozen=True)
class Learned:
    """Errors of the test ratings after learning online, and its seconds."""

    errors: NDArray[np.float64]
    seconds: float


def run(
    train: gpu.Ratings, test: gpu.Ratings, algorithms: Sequence[str], factors: Sequence[int], seeds: Sequence[int],
    backend: str,
) -> Iterator[Row]:  # fmt: skip
    """Rows for each algorithm with each F, first with known users learned, then kept."""
    for algorithm in algorithms:
        chosen = gpu.choose(backend)  # type: ignore[arg-type] # `choose` refuses an unknown name
        for n_factors in factors:
            params = params_for(algorithm, {"n_factors": n_factors})
            say(f"{params} ({chosen.name})")
            trials = [Trial(train, test, with_changes(params, seed=seed), chosen) for seed in seeds]
            for is_kept in (False, True):
                online = [trial.learned(is_kept=is_kept) for trial in trials]
                yield from rows(trials, online, "kept" if is_kept else "learned")


class Trial:
    """One seed: its newcomers, a model trained without them, a model trained with them, and their test errors."""

    def __init__(self, train: gpu.Ratings, test: gpu.Ratings, params: Params, backend: gpu.Backend) -> None:
        self.params, self._train, self._test, self._backend = params, train, test, backend
        newcomers = Newcomers.drawn(train, getattr(params, "seed", 0))
        self.parts, self._is_new = newcomers.parts(test), newcomers.rated(train)
        self._without_newcomers = gpu.fit(train.where(~self._is_new), params, backend=backend)
        self.unseen = self._errors(self._without_newcomers, train.by_user)
        began = time.perf_counter()
        model = gpu.fit(train, params, backend=backend)
        self.retraining_s = time.perf_counter() - began
        self.retrained = self._errors(model, train.by_user)

    def learned(self, *, is_kept: bool) -> Learned:
        """Let a copy of the first model learn the newcomers; `is_kept` keeps the factors of known users."""
        has_twin = self._backend.name == "device" and isinstance(self.params, GradientParams)
        learn = _learned_on_device if has_twin else _learned_on_host
        model, seconds = learn(_copy(self._without_newcomers), self._train, self._is_new, is_kept)
        return Learned(self._errors(model, self._train.by_user), seconds)

    def _errors(self, model: gpu.Model, rows: gpu.Rows) -> NDArray[np.float64]:
        users, items, values = self._test.coo()
        errors: NDArray[np.float64] = gpu.evaluate.predict(model, rows, users, items).astype(np.float64) - values
        return errors


def rows(trials: Sequence[Trial], online: Sequence[Learned], known_users: str) -> Iterator[Row]:
    """A row for each part of the test ratings."""
    params = trials[0].params
    retraining_s = median(trial.retraining_s for trial in trials)
    online_s = median(learned.seconds for learned in online)
    for part in trials[0].parts:
        masks = [trial.parts[part] for trial in trials]
        retrained = [rmse(trial.retrained, mask) for trial, mask in zip(trials, masks, strict=True)]
        unseen = [rmse(trial.unseen, mask) for trial, mask in zip(trials, masks, strict=True)]
        after = [rmse(learned.errors, mask) for learned, mask in zip(online, masks, strict=True)]
        differences = tuple(one - other for one, other in zip(after, retrained, strict=True))
        yield Row(
            params.algorithm, params.width, getattr(params, "n_neighbors", 0), known_users, part,
            round(median(int(mask.sum()) for mask in masks)), median(retrained), median(unseen), median(after),
            median(differences), differences, retraining_s, online_s,
        )  # fmt: skip


def rmse(errors: NDArray[np.float64], mask: NDArray[np.bool_]) -> float:
    """RMSE of the errors where `mask` is true."""
    return float(np.sqrt(np.mean(errors[mask] ** 2)))


def _drawn(generator: np.random.Generator, n: int) -> NDArray[np.bool_]:
    is_new = np.zeros(n, dtype=np.bool_)
    is_new[generator.permutation(n)[: round(SHARE * n)]] = True
    return is_new


def _copy(model: gpu.Model) -> gpu.Model:
    arrays = {name: array.copy() for name, array in model.arrays.items()}
    return gpu.Model(model.params, model.mean, model.scale, arrays, model.calibration)


def _learned_on_host(
    model: gpu.Model, ratings: gpu.Ratings, is_new: NDArray[np.bool_], is_kept: bool
) -> tuple[gpu.Model, float]:
    table, first = RatingTable(ratings.n_users, ratings.n_items), ratings if is_kept else ratings.where(~is_new)
    table.apply(*_events(first, 0))
    online = HostModel(model, table, ratings.user_keys, ratings.item_keys)  # refits rows that are not trained
    began = time.perf_counter()
    if not is_kept:
        online.note(table.apply(*_events(ratings.where(is_new), len(first))))
    online.settle()
    return model, time.perf_counter() - began


def _learned_on_device(
    model: gpu.Model, ratings: gpu.Ratings, is_new: NDArray[np.bool_], is_kept: bool
) -> tuple[gpu.Model, float]:
    learner = importlib.import_module("gpu.device.online.learner")
    first = ratings if is_kept else ratings.where(~is_new)
    began = time.perf_counter()
    online = learner.DeviceLearner(model, first.by_user, np.arange(len(first)), ratings.user_keys, ratings.item_keys)
    online.finish()  # the start has learned the rows that are not trained
    if not is_kept:
        users, items, values, _, positions = _events(ratings.where(is_new), len(first))
        began = time.perf_counter()
        online.apply(users, items, values, positions)
        online.finish()
    seconds = time.perf_counter() - began
    arrays = {**model.arrays, **online.fetch(np.arange(model.n_users), np.arange(model.n_items))}
    return gpu.Model(model.params, model.mean, model.scale, arrays, model.calibration), seconds


def _events(ratings: gpu.Ratings, first: int) -> Events:
    """The ratings as `RatingTable.apply` takes them, positions from `first`."""
    users, items, values = ratings.coo()
    positions = first + np.arange(len(values))
    return users, items, values, positions.astype(np.float64), positions
