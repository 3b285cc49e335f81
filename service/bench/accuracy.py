"""`nearfield bench accuracy`: test RMSE of CULSH-MF by each way of finding neighbours, and of ALS, on one split."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import gpu
from gpu import similarity
from gpu.params import CulshParams, Similarity, params_for
from service import offline, ratings_file
from service.bench.report import say


@dataclass(frozen=True)
class Row:
    """One training. `neighbours_seconds` is a median of three and is part of `seconds`."""

    algorithm: str
    neighbours: str
    n_factors: int
    n_neighbours: int
    test_rmse: float
    seconds: float
    neighbours_seconds: float
    filled_at_random: float


def run(ratings: Path, test_fraction: float, seed: int, shared: dict[str, Any]) -> Iterator[Row]:
    """Train with every similarity and the parameters `shared`, without neighbours, by ALS, and with the defaults."""
    data = offline.Data.split(ratings_file.read(ratings), test_fraction, seed)
    for name in get_args(Similarity):
        yield measure(data, params_for("culsh", shared | {"similarity": name}))
    yield measure(data, params_for("sgd", {"n_factors": 64}))
    yield measure(data, params_for("als", {}))
    yield measure(data, params_for("culsh", {}))


def measure(data: offline.Data, params: gpu.Params) -> Row:
    """Find the neighbours three times, then train once."""
    say(f"training {params}")
    found = [similarity.neighbours(data.train, params) for _ in range(3)] if isinstance(params, CulshParams) else []
    began = time.perf_counter()
    closing = offline.train(data, params, gpu.HOST, lambda line: None)
    say(f"  {time.perf_counter() - began:.1f} s with measuring, {closing}")
    return Row(
        params.algorithm,
        getattr(params, "similarity", "none"),
        params.n_factors,
        getattr(params, "n_neighbours", 0),
        closing["test_rmse"],
        closing["seconds"],
        statistics.median(f.seconds for f in found) if found else 0.0,
        found[0].filled if found else 0.0,
    )


def folds(ratings: Path, n_folds: int) -> Iterator[Row]:
    """The shipped defaults on `n_folds` disjoint test sets (a permutation by seed 0, cut evenly)."""
    for data in offline.Data.folds(ratings_file.read(ratings), n_folds):
        yield measure(data, params_for("culsh", {}))
