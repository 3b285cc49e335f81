"""`python -m benchmarks noise`: shift of the test error if some training ratings are noise ([004] table 8).

The paper does not define its noise. Here a random share of the training ratings gets random values of the scale, all
equally likely, so a rating may keep its value. The test part stays clean. The models with and without noise have the
same seed.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import gpu
from benchmarks.accuracy import fitted
from benchmarks.report import say
from gpu.param_kinds import Params
from gpu.params import CulshParams, SgdParams

SHARES = (0.01, 0.005, 0.001, 0.0005, 0.0001)
MODELS = (SgdParams(n_factors=128), CulshParams(n_factors=32, n_neighbors=32))
PAPER = {  # (Netflix, MovieLens-10M) at `SHARES`
    "sgd": ((0.00116, 0.00157), (0.00055, 0.00092), (0.00032, 0.00040), (0.00018, 0.00028), (0.00011, 0.00016)),
    "culsh": ((0.00096, 0.00166), (0.00045, 0.00076), (0.00011, 0.00006), (0.00002, 0.00004), (0.00001, 0.00002)),
}


@dataclass(frozen=True)
class Row:
    """One model with one share of noise; `shift` is the test RMSE with noise minus that without."""

    algorithm: str
    n_factors: int
    n_neighbors: int
    noise: float
    clean_rmse: float
    shift: float
    shift_by_seed: tuple[float, ...]
    paper_netflix: float
    paper_movielens: float


def run(train: gpu.Ratings, test: gpu.Ratings, seeds: Sequence[int], backend: str) -> Iterator[Row]:
    """A row for each of `MODELS` with each of `SHARES`."""
    for params in MODELS:
        chosen = gpu.choose(backend)  # type: ignore[arg-type] # `choose` refuses an unknown name
        settings = [dataclasses.replace(params, seed=seed) for seed in seeds]
        clean = [fitted(train, test, setting, chosen)[0] for setting in settings]
        for share, paper in zip(SHARES, PAPER[params.algorithm], strict=True):
            noisy = [fitted(corrupted(train, share, setting.seed), test, setting, chosen)[0] for setting in settings]
            yield row(params, share, clean, noisy, paper)


def row(
    params: Params, share: float, clean: Sequence[float], noisy: Sequence[float], paper: tuple[float, float]
) -> Row:
    """The row of one model and share, from the errors of each seed with and without noise."""
    shifts = tuple(after - before for before, after in zip(clean, noisy, strict=True))
    say(f"  {params.algorithm}, {share:.2%}: {statistics.median(shifts):+.5f}")
    return Row(
        params.algorithm, params.width, getattr(params, "n_neighbors", 0), share,
        statistics.median(clean), statistics.median(shifts), shifts, *paper,
    )  # fmt: skip


def corrupted(ratings: gpu.Ratings, share: float, seed: int) -> gpu.Ratings:
    """The ratings with random values in a random `share` of them."""
    users, items, values = ratings.coo()
    generator = np.random.default_rng(seed)
    noisy = values.copy()
    drawn = generator.choice(len(values), round(share * len(values)), replace=False)
    noisy[drawn] = generator.choice(np.unique(values), len(drawn))
    shape = ratings.n_users, ratings.n_items
    return gpu.Ratings.from_coo(users, items, noisy, shape, ratings.user_keys, ratings.item_keys)
