"""`python -m benchmarks als-lists`: lists of als-implicit and of the package `implicit`.

The full ranking holds out a fifth of each user's ratings and ranks every unseen item; held-out ratings of four stars
and more are relevant. Leave-one-out holds out one rating of each user and ranks it among 99 unrated items.

Both learn ratings as ones, like the peer's published figures. The peer's confidence of a rated pair is its `alpha`,
ours is 1 + α, so its 5 equals our 4. Its λ is the same for every row, which is our exponent 0.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator

import gpu
from benchmarks import als_peer, datasets
from benchmarks.options import File, Seed
from benchmarks.results import Row, say
from benchmarks.timing import timed
from gpu.params import AlsImplicitParams

SEEDS, RELEVANT_FROM = (0, 1, 2), 4.0
# The peer's two best settings on this data, from a grid over its parameters.
PEERS_BEST = (
    AlsImplicitParams(n_factors=128, regularization=60, alpha=4, regularization_exponent=0, n_epochs=15, n_cg_steps=3),
    AlsImplicitParams(n_factors=64, regularization=30, alpha=4, regularization_exponent=0, n_epochs=15, n_cg_steps=3),
)
# λ weighted by counts: the best of a grid over λ and α, chosen by leave-one-out within the training part.
WEIGHTED = dataclasses.replace(PEERS_BEST[0], regularization=0.045, alpha=5, regularization_exponent=1)


def als_lists(ratings: File, seed: Seed = 42) -> Iterator[Row]:
    """HR@10 and NDCG@10 of als-implicit, and of the package `implicit` if it is installed.

    The peer has its two best settings, ours the same, and the regularizer that the peer lacks.
    """
    data, peer = datasets.ratings_of(ratings), als_peer.installed()
    rest, positives, negatives = datasets.leave_one_out(data, seed)
    train, test = datasets.per_user_split(data, seed)
    ones = datasets.as_ones(rest), datasets.as_ones(train)

    def row(code: str, fit: Callable[[gpu.Ratings, AlsImplicitParams], gpu.Model], params: AlsImplicitParams) -> Row:
        say(f"training {code}, {params.n_factors} factors")
        hits, full, seconds = [], [], []
        for number in SEEDS:
            seeded = dataclasses.replace(params, seed=number)
            hits.append(gpu.evaluate.sampled_ranking(fit(ones[0], seeded), rest.by_user, positives, negatives))
            model, took = timed(lambda seeded=seeded: fit(ones[1], seeded))  # type: ignore[misc]
            full.append(gpu.evaluate.ranking(model, train.by_user, test, RELEVANT_FROM))
            seconds.append(took)
        hr, ndcg = (tuple(one[name] for one in hits) for name in ("hr@10", "ndcg@10"))
        full_ndcg, full_recall = (tuple(one[name] for one in full) for name in ("ndcg@10", "recall@20"))
        return {
            "code": code, "n_factors": params.n_factors, "regularization": params.regularization,
            "exponent": params.regularization_exponent, "alpha": params.alpha, "hr_at_10": hr, "ndcg_at_10": ndcg,
            "full_ndcg_at_10": full_ndcg, "full_recall_at_20": full_recall, "seconds": statistics.median(seconds),
        }  # fmt: skip

    for params in PEERS_BEST:
        if peer is not None:
            yield row("implicit", lambda part, own: als_peer.Peer(peer, part, own, own.n_epochs).fit(), params)
        yield row("als-implicit", gpu.fit, params)
    yield row("als-implicit, weighted", gpu.fit, WEIGHTED)
