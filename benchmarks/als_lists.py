"""`python -m benchmarks als-lists`: lists of als-implicit and of the package `implicit`, on the splits of `ranking`.

Both learn ratings as ones, like the peer's published figures. The peer's confidence of a rated pair is its `alpha`,
ours is 1 + α, so its 5 equals our 4. Its λ is the same for every row, which is our exponent 0.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gpu
from benchmarks import als_peer
from benchmarks.leave_one_out import leave_one_out
from benchmarks.ranking import HELD_OUT, RELEVANT_FROM, per_user_split
from benchmarks.report import say
from gpu.params import AlsImplicitParams
from service.cli import offline
from service.cli.files import ratings_file

SEEDS = (0, 1, 2)
# The peer's two best settings on this data, from a grid over its parameters.
PEERS_BEST = (
    AlsImplicitParams(n_factors=128, regularization=60, alpha=4, regularization_exponent=0, n_epochs=15, n_cg_steps=3),
    AlsImplicitParams(n_factors=64, regularization=30, alpha=4, regularization_exponent=0, n_epochs=15, n_cg_steps=3),
)
# λ weighted by counts: the best of a grid over λ and α, chosen by leave-one-out within the training part.
WEIGHTED = dataclasses.replace(PEERS_BEST[0], regularization=0.045, alpha=5, regularization_exponent=1)

Fit = Callable[[gpu.Ratings, AlsImplicitParams], gpu.Model]


@dataclass(frozen=True)
class Row:
    """One program with one set of parameters: a value for each of `SEEDS`, and median seconds of a training."""

    code: str
    n_factors: int
    regularization: float | None
    exponent: float
    alpha: float | None
    hr_at_10: tuple[float, ...]
    ndcg_at_10: tuple[float, ...]
    full_ndcg_at_10: tuple[float, ...]
    full_recall_at_20: tuple[float, ...]
    seconds: float


class Splits:
    """The two splits of `python -m benchmarks ranking`; training ratings become ones."""

    def __init__(self, ratings: gpu.Ratings, seed: int) -> None:
        self._rest, self._positives, self._negatives = leave_one_out(ratings, seed)
        self._train, self._test = per_user_split(ratings, HELD_OUT, seed)
        self._ones = as_ones(self._rest), as_ones(self._train)

    def row(self, code: str, fit: Fit, params: AlsImplicitParams) -> Row:
        """Train on both splits with each seed, and measure the lists."""
        sampled, full, seconds = [], [], []
        for seed in SEEDS:
            seeded = dataclasses.replace(params, seed=seed)
            model = fit(self._ones[0], seeded)
            sampled.append(gpu.evaluate.sampled_ranking(model, self._rest.by_user, self._positives, self._negatives))
            began = time.perf_counter()
            model = fit(self._ones[1], seeded)
            seconds.append(time.perf_counter() - began)
            full.append(gpu.evaluate.ranking(model, self._train.by_user, self._test, RELEVANT_FROM))
        return Row(
            code, params.n_factors, params.regularization, params.regularization_exponent, params.alpha,
            tuple(one["hr@10"] for one in sampled), tuple(one["ndcg@10"] for one in sampled),
            tuple(one["ndcg@10"] for one in full), tuple(one["recall@20"] for one in full), statistics.median(seconds),
        )  # fmt: skip


def run(ratings: Path, seed: int) -> Iterator[Row]:
    """The peer with its two best settings, ours with the same, and ours with the regularizer that the peer lacks."""
    splits = Splits(offline.Data.split(ratings_file.read(ratings), 0.0, seed).train, seed)
    peer = als_peer.installed()
    for params in PEERS_BEST:
        if peer is not None:
            say(f"training implicit, {params.n_factors} factors")
            yield splits.row("implicit", lambda part, seeded: als_peer.fit(peer, part, seeded), params)
        say(f"training als-implicit, {params.n_factors} factors")
        yield splits.row("als-implicit", gpu.fit, params)
    say("training als-implicit, weighted")
    yield splits.row("als-implicit, weighted", gpu.fit, WEIGHTED)


def as_ones(ratings: gpu.Ratings) -> gpu.Ratings:
    """The same pairs, each rated 1."""
    by_user, by_item = (rows._replace(values=np.ones_like(rows.values)) for rows in (ratings.by_user, ratings.by_item))
    return gpu.Ratings(by_user, by_item, ratings.user_keys, ratings.item_keys)
